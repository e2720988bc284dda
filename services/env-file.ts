/** Reads `.env` where there is one; variables that are set already stay as they are. */
export function loadEnvFile(): void {
  try {
    process.loadEnvFile();
  } catch {
    // .env is optional
  }
}
