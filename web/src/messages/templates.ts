/**
 * The e-mails by the names of their templates. They are written in English: the first texts are as
 * their subjects.
 */
export const templates = {
  "template.verify-email": ["Verify your e-mail address", "Adresse bestätigen"],
  "template.change-email": ["Verify your new e-mail address", "Neue Adresse bestätigen"],
  "template.reset-password": ["Reset your password", "Passwort zurücksetzen"],
  "template.password-changed": ["Your password was changed", "Passwort geändert"],
  "template.password-reset": ["Your password was reset", "Passwort zurückgesetzt"],
  "template.api-key-created": ["An API key was created", "API-Schlüssel angelegt"],
  "template.email-change-requested": [
    "A new e-mail address was requested",
    "Neue Adresse angefordert",
  ],
  "template.address-in-use": [
    "Your e-mail address was entered for another account",
    "Adresse für ein anderes Konto angegeben",
  ],
  "template.email-changed": ["Your e-mail address was changed", "Adresse geändert"],
  "template.mfa-enabled": [
    "Two-factor authentication is on",
    "Zwei-Faktor-Authentifizierung eingeschaltet",
  ],
  "template.mfa-disabled": [
    "Two-factor authentication is off",
    "Zwei-Faktor-Authentifizierung ausgeschaltet",
  ],
  "template.backup-codes-created": ["New backup codes were created", "Neue Backup-Codes"],
  "template.backup-code-used": ["A backup code was used", "Backup-Code verwendet"],
  "template.account-locked": ["Your account was locked", "Konto gesperrt"],
  "template.wrong-code": ["A sign-in with a wrong code", "Anmeldung mit falschem Code"],
  "template.session-reused": [
    "A session was ended for your safety",
    "Sitzung zur Sicherheit beendet",
  ],
  "template.deletion-requested": ["Your account will be deleted", "Konto wird gelöscht"],
  "template.role-changed": ["Your role was changed", "Rolle geändert"],
  "template.administrators-changed": [
    "The role of a user was changed",
    "Rolle eines Benutzers geändert",
  ],
  "template.invitation": ["You are invited", "Einladung"],
  "template.password-set": ["Your account has a password now", "Erstes Passwort festgelegt"],
  "template.password-removed": ["Your password was removed", "Passwort entfernt"],
  "template.second-factor-changed": ["Your sign-in steps were changed", "Anmeldeschritte geändert"],
  "template.passkey-added": ["A passkey was added", "Passkey hinzugefügt"],
  "template.passkey-removed": ["A passkey was removed", "Passkey entfernt"],
  "template.passkey-counter": ["A passkey behaved unusually", "Auffälliger Passkey"],
  "template.identity-added": ["A sign-in provider was connected", "Anbieter verbunden"],
  "template.identity-removed": ["A sign-in provider was disconnected", "Anbieter getrennt"],
  "template.account-taken-back": ["Your account is yours now", "Konto übernommen"],
  "template.new-device": ["New sign-in to your account", "Anmeldung auf neuem Gerät"],
  "template.email-code": ["Your code for signing in", "Code für die Anmeldung"],
  "template.budget-alert": [
    "A budget of AI calls is almost used up",
    "Budget für KI-Aufrufe fast aufgebraucht",
  ],
  "template.budget-exceeded": [
    "A budget of AI calls is used up",
    "Budget für KI-Aufrufe aufgebraucht",
  ],
  "template.webhook-disabled": ["A webhook was turned off", "Webhook ausgeschaltet"],
} as const satisfies Record<string, readonly [string, string]>;
