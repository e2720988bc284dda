/** What the audit log records, by the names of its events. */
export const events = {
  "event.auth.register": ["Registered", "Registriert"],
  "event.auth.login": ["Signed in", "Angemeldet"],
  "event.auth.login_failed": ["Failed to sign in", "Anmeldung fehlgeschlagen"],
  "event.auth.locked": ["Locked after failed attempts", "Nach Fehlversuchen gesperrt"],
  "event.auth.logout": ["Signed out", "Abgemeldet"],
  "event.auth.refresh_reused": [
    "Session ended: its token was used twice",
    "Sitzung beendet: ihr Token wurde zweimal benutzt",
  ],
  "event.auth.confirmed": ["Confirmed who it is", "Person bestätigt"],
  "event.auth.passkey_counter_fell": [
    "Passkey counted fewer uses than before",
    "Passkey zählte weniger Anmeldungen als zuvor",
  ],
  "event.auth.email_verified": ["Address confirmed", "Adresse bestätigt"],
  "event.auth.password_reset_requested": [
    "Password reset requested",
    "Zurücksetzen des Passworts angefordert",
  ],
  "event.auth.password_reset": ["Password reset", "Passwort zurückgesetzt"],
  "event.auth.mfa_setup": [
    "Two-factor authentication set up",
    "Zwei-Faktor-Authentifizierung eingerichtet",
  ],
  "event.auth.mfa_verified": ["Code accepted", "Code angenommen"],
  "event.auth.mfa_failed": ["Code refused", "Code abgelehnt"],
  "event.auth.mfa_disabled": [
    "Two-factor authentication turned off",
    "Zwei-Faktor-Authentifizierung ausgeschaltet",
  ],
  "event.auth.backup_code_used": ["Backup code used", "Backup-Code benutzt"],
  "event.user.profile_updated": ["Profile changed", "Profil geändert"],
  "event.user.password_changed": ["Password changed", "Passwort geändert"],
  "event.user.email_changed": ["Address changed", "Adresse geändert"],
  "event.user.session_revoked": ["Session ended", "Sitzung beendet"],
  "event.user.deletion_requested": ["Deletion requested", "Löschung angefordert"],
  "event.user.exported": ["Data exported", "Daten exportiert"],
  "event.user.restored": ["Account restored", "Konto wiederhergestellt"],
  "event.user.erased": ["Account erased", "Konto gelöscht"],
  "event.admin.user_updated": ["Changed by an administrator", "Von der Verwaltung geändert"],
  "event.admin.user_deleted": ["Deleted by an administrator", "Von der Verwaltung gelöscht"],
  "event.admin.sessions_revoked": [
    "Sessions ended by an administrator",
    "Sitzungen von der Verwaltung beendet",
  ],
  "event.admin.impersonated": [
    "Administrator signed in as the user",
    "Verwaltung als Benutzer angemeldet",
  ],
  "event.admin.user_invited": ["Invited by an administrator", "Von der Verwaltung eingeladen"],
  "event.admin.access_reset": [
    "Access reset by an administrator",
    "Zugang von der Verwaltung zurückgesetzt",
  ],
  "event.admin.api_key_updated": [
    "API key changed by an administrator",
    "API-Schlüssel von der Verwaltung geändert",
  ],
  "event.admin.service_account_created": ["Service account created", "Dienstkonto angelegt"],
  "event.admin.email_retried": ["E-mail sent again", "E-Mail erneut gesendet"],
  "event.admin.keys_withdrawn": ["Signing keys withdrawn", "Signaturschlüssel zurückgezogen"],
  "event.admin.denied": ["Refused to an administrator", "Der Verwaltung verweigert"],
} as const satisfies Record<string, readonly [string, string]>;

/** What somebody did, as it follows on their name. */
export const sentences = {
  "did.auth.register": ["registered", "hat sich registriert"],
  "did.auth.login": ["signed in", "hat sich angemeldet"],
  "did.auth.login_failed": ["failed to sign in", "konnte sich nicht anmelden"],
  "did.auth.locked": ["was locked after failed attempts", "wurde nach Fehlversuchen gesperrt"],
  "did.auth.logout": ["signed out", "hat sich abgemeldet"],
  "did.auth.refresh_reused": [
    "lost a session: its token was used twice",
    "hat eine Sitzung verloren: ihr Token wurde zweimal benutzt",
  ],
  "did.auth.email_verified": ["confirmed the e-mail address", "hat die E-Mail-Adresse bestätigt"],
  "did.auth.password_reset_requested": [
    "requested a password reset",
    "hat ein neues Passwort angefordert",
  ],
  "did.auth.password_reset": ["reset the password", "hat das Passwort zurückgesetzt"],
  "did.auth.mfa_setup": [
    "set up two-factor authentication",
    "hat die Zwei-Faktor-Authentifizierung eingerichtet",
  ],
  "did.auth.mfa_verified": ["confirmed with a code", "hat mit einem Code bestätigt"],
  "did.auth.mfa_failed": ["entered a wrong code", "hat einen falschen Code eingegeben"],
  "did.auth.mfa_disabled": [
    "turned off two-factor authentication",
    "hat die Zwei-Faktor-Authentifizierung ausgeschaltet",
  ],
  "did.auth.backup_code_used": ["used a backup code", "hat einen Backup-Code benutzt"],
  "did.user.profile_updated": ["changed the profile", "hat das Profil geändert"],
  "did.user.password_changed": ["changed the password", "hat das Passwort geändert"],
  "did.user.email_changed": ["changed the e-mail address", "hat die E-Mail-Adresse geändert"],
  "did.user.session_revoked": ["ended a session", "hat eine Sitzung beendet"],
  "did.user.deletion_requested": [
    "requested the deletion of the account",
    "hat die Löschung des Kontos angefordert",
  ],
  "did.user.exported": ["exported the data", "hat die Daten exportiert"],
  "did.user.restored": ["restored the account", "hat das Konto wiederhergestellt"],
  "did.user.erased": ["was erased", "wurde gelöscht"],
  "did.admin.user_updated": ["changed {user}", "hat {user} geändert"],
  "did.admin.user_deleted": ["deleted {user}", "hat {user} gelöscht"],
  "did.admin.sessions_revoked": [
    "ended the sessions of {user}",
    "hat die Sitzungen von {user} beendet",
  ],
  "did.admin.impersonated": ["signed in as {user}", "hat sich als {user} angemeldet"],
  "did.admin.email_retried": [
    "sent an e-mail to {user} again",
    "hat eine E-Mail an {user} erneut gesendet",
  ],
  "did.admin.keys_withdrawn": [
    "withdrew the signing keys",
    "hat die Signaturschlüssel zurückgezogen",
  ],
  "did.admin.denied": ["was refused something", "wurde etwas verweigert"],
} as const satisfies Record<string, readonly [string, string]>;
