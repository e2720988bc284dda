/** Texts about passkeys: sign-in, and the list on the security page. */
export const passkeys = {
  "passkeys.title": ["Passkeys", "Passkeys"],
  "passkeys.about": [
    "Sign in with your fingerprint, your face or your device's PIN. Nobody can guess a passkey, and it works on this website only.",
    "Melden Sie sich mit Fingerabdruck, Gesicht oder der PIN Ihres Geräts an. Einen Passkey kann niemand erraten, und er funktioniert nur auf dieser Website.",
  ],
  "passkeys.none": ["You have no passkey yet.", "Sie haben noch keinen Passkey."],
  "passkeys.add": ["Add a passkey", "Passkey hinzufügen"],
  "passkeys.added": ["The passkey has been added.", "Der Passkey wurde hinzugefügt."],
  "passkeys.name": ["Name", "Name"],
  "passkeys.rename": ["Rename", "Umbenennen"],
  "passkeys.remove": ["Remove", "Entfernen"],
  "passkeys.removeTitle": ["Remove this passkey", "Passkey entfernen"],
  "passkeys.renameTitle": ["Rename this passkey", "Passkey umbenennen"],
  "passkeys.removeAbout": [
    "You can then no longer sign in with {name}.",
    "Mit {name} können Sie sich dann nicht mehr anmelden.",
  ],
  "passkeys.synced": ["Synced to your other devices", "Mit Ihren anderen Geräten synchronisiert"],
  "passkeys.onlyHere": ["On one device only", "Nur auf einem Gerät"],
  "passkeys.created": ["Added {time}", "Hinzugefügt {time}"],
  "passkeys.used": ["last used {time}", "zuletzt verwendet {time}"],
  "confirm.title": ["Confirm that it is you", "Bestätigen Sie, dass Sie es sind"],
  "confirm.about": [
    "This step affects the security of your account, and you signed in a while ago.",
    "Dieser Schritt betrifft die Sicherheit Ihres Kontos, und Ihre Anmeldung liegt länger zurück.",
  ],
  "confirm.signInAgain": [
    "You signed in a while ago. Please sign out and in again, then repeat this step.",
    "Ihre Anmeldung liegt länger zurück. Bitte melden Sie sich ab und wieder an und wiederholen Sie dann diesen Schritt.",
  ],
  "confirm.code": ["Your account also asks for a code.", "Ihr Konto verlangt außerdem einen Code."],
  "confirm.done": [
    "You have confirmed that it is you. You can continue now.",
    "Sie haben bestätigt, dass Sie es sind. Sie können jetzt fortfahren.",
  ],
  "confirm.button": ["Confirm", "Bestätigen"],

  "factor.title": ["Second factor at every sign-in", "Zweiter Faktor bei jeder Anmeldung"],
  "factor.about": [
    "If this is required, your password alone is never enough: you also need a passkey, a code or a backup code.",
    "Ist das erforderlich, genügt Ihr Passwort allein nie: Sie brauchen immer auch einen Passkey, einen Code oder einen Backup-Code.",
  ],
  "factor.required": ["Required", "Erforderlich"],
  "factor.optional": ["Not required", "Nicht erforderlich"],
  "factor.require": ["Require it", "Verlangen"],
  "factor.stop": ["Stop requiring it", "Nicht mehr verlangen"],
  "passkeys.signIn": ["Use a passkey", "Passkey verwenden"],
  "passkeys.offer": [
    "Next time, you can sign in with your fingerprint, your face or your device's PIN.",
    "Beim nächsten Mal können Sie sich mit Fingerabdruck, Gesicht oder der PIN Ihres Geräts anmelden.",
  ],
  "passkeys.accept": ["Set up a passkey", "Passkey einrichten"],
  "passkeys.later": ["Not now", "Nicht jetzt"],
  "passkeys.cancelled": [
    "No passkey was used. Please try again, or sign in with your password.",
    "Es wurde kein Passkey verwendet. Versuchen Sie es noch einmal, oder melden Sie sich mit Ihrem Passwort an.",
  ],
  "passkeys.exists": [
    "This device already has a passkey for your account.",
    "Dieses Gerät hat bereits einen Passkey für Ihr Konto.",
  ],
} as const satisfies Record<string, readonly [string, string]>;
