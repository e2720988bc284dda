/** Texts of the pages of one's own account. */
export const account = {
  "account.restored": [
    "Welcome back: the deletion of your account is cancelled.",
    "Willkommen zurück: Die Löschung Ihres Kontos ist aufgehoben.",
  ],
  "account.passwordExpired": [
    "Your password is old. Please set a new one.",
    "Ihr Passwort ist alt. Bitte setzen Sie ein neues.",
  ],
  "profile.title": ["Profile", "Profil"],
  "profile.since": ["Member since {date}", "Mitglied seit {date}"],
  "profile.verified": ["confirmed", "bestätigt"],
  "profile.unverified": ["not confirmed", "nicht bestätigt"],
  "profile.bioHint": ["Up to 1,000 characters.", "Bis zu 1.000 Zeichen."],
  "profile.resend": ["Send the confirmation again", "Bestätigung erneut senden"],
  "profile.resent": ["An e-mail is on its way.", "Eine E-Mail ist unterwegs."],

  "security.title": ["Security", "Sicherheit"],
  "security.password": ["Password", "Passwort"],
  "security.passwordExpires": [
    "It should be changed before {date}.",
    "Es sollte vor dem {date} geändert werden.",
  ],
  "security.passwordOld": [
    "It has reached its maximum age: please change it.",
    "Es hat sein Höchstalter erreicht: Bitte ändern Sie es.",
  ],
  "security.changePassword": ["Change password", "Passwort ändern"],
  "security.passwordChanged": [
    "Your password is changed. All other sessions are signed out.",
    "Ihr Passwort ist geändert. Alle anderen Sitzungen sind abgemeldet.",
  ],
  "security.email": ["E-mail address", "E-Mail-Adresse"],
  "security.newEmail": ["New e-mail address", "Neue E-Mail-Adresse"],
  "security.emailNow": ["At present: {email}", "Derzeit: {email}"],
  "security.changeEmail": ["Change address", "Adresse ändern"],
  "security.emailChanged": [
    "Open the link that we sent to the new address. Until then the old one stays.",
    "Öffnen Sie den Link, den wir an die neue Adresse gesendet haben. Bis dahin gilt die alte.",
  ],
  "security.mfa": ["Two-step sign-in", "Anmeldung in zwei Schritten"],
  "security.mfaAbout": [
    "A code of an authenticator app protects your account even if your password leaks.",
    "Ein Code einer Authenticator-App schützt Ihr Konto auch dann, wenn Ihr Passwort bekannt wird.",
  ],
  "security.mfaUnconfirmedAbout": [
    "No code of your app has been accepted yet, but the next sign-in asks for one. Enter a code now, set it up again, or turn it off. If you can't, a reset of your password by e-mail removes it.",
    "Noch wurde kein Code Ihrer App angenommen, doch die nächste Anmeldung verlangt einen. Geben Sie jetzt einen Code ein, richten Sie die App neu ein oder schalten Sie aus. Geht das nicht, entfernt ein Zurücksetzen des Passworts per E-Mail den zweiten Schritt.",
  ],
  "security.mfa_on": ["On", "Ein"],
  "security.mfa_unconfirmed": ["Not confirmed yet", "Noch nicht bestätigt"],
  "security.mfa_off": ["Off", "Aus"],
  "security.mfaSetUp": ["Set up", "Einrichten"],
  "security.mfaSetUpAgain": ["Set up again", "Neu einrichten"],
  "security.mfaEnterCode": ["Enter a code", "Code eingeben"],
  "security.mfaFirstCode": [
    "2. Enter the code that the app shows",
    "2. Geben Sie den Code ein, den die App zeigt",
  ],
  "security.mfaConfirm": ["Confirm", "Bestätigen"],
  "security.mfaLater": ["Later", "Später"],
  "security.mfaAccepted": [
    "The code is right: two-step sign-in is on.",
    "Der Code stimmt: Die Anmeldung in zwei Schritten ist eingeschaltet.",
  ],
  "security.mfaScan": [
    "1. Scan this with your authenticator app",
    "1. Scannen Sie dies mit Ihrer Authenticator-App",
  ],
  "security.mfaQr": ["QR code for the authenticator app", "QR-Code für die Authenticator-App"],
  "security.mfaSecret": ["or type this key:", "oder geben Sie diesen Schlüssel ein:"],
  "security.mfaCodes": ["Keep these backup codes", "Bewahren Sie diese Ersatzcodes auf"],
  "security.mfaCodesAbout": [
    "Each signs you in once, without the app. They are shown only now, and replace earlier ones.",
    "Jeder meldet Sie einmal ohne die App an. Sie werden nur jetzt angezeigt und ersetzen frühere.",
  ],
  "security.mfaDone": ["I have kept them", "Ich habe sie aufbewahrt"],
  "security.mfaDisable": ["Turn off", "Ausschalten"],
  "security.mfaDisabled": ["Two-step sign-in is off.", "Die Anmeldung in zwei Schritten ist aus."],
  "security.newCodes": ["New backup codes", "Neue Ersatzcodes"],
  "security.codeOrBackup": ["Code or backup code", "Code oder Ersatzcode"],
  "security.download": ["Download", "Herunterladen"],
  "security.passwordConfirm": [
    "Please confirm with your password.",
    "Bitte bestätigen Sie mit Ihrem Passwort.",
  ],

  "sessions.title": ["Sessions", "Sitzungen"],
  "sessions.about": [
    "These devices are signed in to your account.",
    "Diese Geräte sind in Ihrem Konto angemeldet.",
  ],
  "sessions.current": ["this device", "dieses Gerät"],
  "sessions.impersonated": ["an administrator in your name", "ein Administrator in Ihrem Namen"],
  "sessions.active": ["Active {time}", "Aktiv {time}"],
  "sessions.since": ["signed in {time}", "angemeldet {time}"],
  "sessions.revoke": ["Sign out", "Abmelden"],
  "sessions.revokeOthers": ["Sign out all others", "Alle anderen abmelden"],

  "data.title": ["Your data", "Ihre Daten"],
  "data.export": ["Export", "Export"],
  "data.exportAbout": [
    "A file with everything that is stored about you.",
    "Eine Datei mit allem, was über Sie gespeichert ist.",
  ],
  "data.exportButton": ["Download as JSON", "Als JSON herunterladen"],
  "data.delete": ["Delete the account", "Konto löschen"],
  "data.deleteAbout": [
    "You are signed out everywhere. Until the day of the deletion, signing in restores the account.",
    "Sie werden überall abgemeldet. Bis zum Tag der Löschung stellt eine Anmeldung das Konto wieder her.",
  ],
  "data.deleteSure": ["Delete my account", "Mein Konto löschen"],
  "data.deleted": [
    "Your account will be deleted on {date}. Signing in before that restores it.",
    "Ihr Konto wird am {date} gelöscht. Eine Anmeldung vorher stellt es wieder her.",
  ],
} as const satisfies Record<string, readonly [string, string]>;
