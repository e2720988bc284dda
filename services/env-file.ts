/** Reads `.env` where there is one; variables that are set already stay as they are. One that can't be read ends the process. */
export function loadEnvFile(): void {
  try {
    process.loadEnvFile();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return; // .env is optional
    process.stderr.write(`Gatehouse can't start:\n  .env can't be read: ${message}\n`);
    process.exit(1);
  }
}
