/** Failures of AI providers, by the words that the API uses. Appended to `chat.providerFailed`. */
export const providers = {
  "provider.rate limited": ["rate limited", "zu viele Anfragen"],
  "provider.quota exhausted": ["quota exhausted", "Kontingent erschöpft"],
  "provider.overloaded": ["overloaded", "überlastet"],
  "provider.internal error": ["internal error", "interner Fehler"],
  "provider.refused the key": ["refused the key", "Schlüssel abgelehnt"],
  "provider.rejected the request": ["rejected the request", "Anfrage abgelehnt"],
  "provider.blocked the content": ["blocked the content", "Inhalt gesperrt"],
  "provider.timed out": ["timed out", "Zeitüberschreitung"],
  "provider.unreachable": ["unreachable", "nicht erreichbar"],
  "provider.unreadable reply": ["unreadable reply", "unlesbare Antwort"],
  "provider.reply too large": ["reply too large", "Antwort zu groß"],
  "provider.broke off": ["broke off", "Antwort abgebrochen"],
} as const satisfies Record<string, readonly [string, string]>;
