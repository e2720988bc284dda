/** Texts about passkeys: sign-in, and the list on the security page. */
export const passkeys = {
  "passkeys.title": ["Passkeys", "Passkeys"],
  "passkeys.about": [
    "Sign in with your fingerprint, your face or a PIN of your device. A passkey can't be guessed, and no other site can ask for it.",
    "Melden Sie sich mit Fingerabdruck, Gesicht oder einer PIN Ihres Geräts an. Ein Passkey lässt sich nicht erraten, und keine andere Website kann ihn verlangen.",
  ],
  "passkeys.none": ["You have no passkey yet.", "Sie haben noch keinen Passkey."],
  "passkeys.add": ["Add a passkey", "Passkey hinzufügen"],
  "passkeys.added": ["The passkey is added.", "Der Passkey ist hinzugefügt."],
  "passkeys.name": ["Name", "Name"],
  "passkeys.rename": ["Rename", "Umbenennen"],
  "passkeys.remove": ["Remove", "Entfernen"],
  "passkeys.removeTitle": ["Remove this passkey", "Passkey entfernen"],
  "passkeys.renameTitle": ["Rename this passkey", "Passkey umbenennen"],
  "passkeys.removeAbout": [
    "{name} will no longer sign in to your account.",
    "{name} meldet dann nicht mehr an Ihrem Konto an.",
  ],
  "passkeys.synced": ["Synced to your other devices", "Auf Ihren anderen Geräten verfügbar"],
  "passkeys.onlyHere": ["On one device only", "Nur auf einem Gerät"],
  "passkeys.created": ["Added {time}", "Hinzugefügt {time}"],
  "passkeys.used": ["last used {time}", "zuletzt verwendet {time}"],
  "confirm.title": ["Confirm that it is you", "Bestätigen Sie, dass Sie es sind"],
  "confirm.about": [
    "You signed in a while ago, and this changes how your account is protected.",
    "Ihre Anmeldung liegt länger zurück, und dieser Schritt betrifft den Schutz Ihres Kontos.",
  ],
  "confirm.signInAgain": [
    "You signed in a while ago. Please sign out and in again, and then repeat this step.",
    "Ihre Anmeldung liegt länger zurück. Bitte melden Sie sich ab und wieder an und wiederholen Sie dann diesen Schritt.",
  ],
  "confirm.code": ["Your account also asks for a code.", "Ihr Konto verlangt außerdem einen Code."],
  "confirm.done": [
    "You have confirmed that it is you. You can go on now.",
    "Sie haben bestätigt, dass Sie es sind. Sie können jetzt fortfahren.",
  ],
  "confirm.button": ["Confirm", "Bestätigen"],

  "factor.title": ["Second factor at every sign-in", "Zweiter Faktor bei jeder Anmeldung"],
  "factor.about": [
    "With this, your password alone never signs in: it always takes a passkey, a code or a backup code as well.",
    "Damit genügt Ihr Passwort allein nie: Es braucht immer auch einen Passkey, einen Code oder einen Backup-Code.",
  ],
  "factor.required": ["Required", "Erforderlich"],
  "factor.optional": ["Not required", "Nicht erforderlich"],
  "factor.require": ["Require it", "Verlangen"],
  "factor.stop": ["Stop requiring it", "Nicht mehr verlangen"],
  "passkeys.signIn": ["Use a passkey", "Passkey verwenden"],
  "passkeys.offer": [
    "Next time you can sign in with your fingerprint, your face or a PIN of your device.",
    "Beim nächsten Mal können Sie sich mit Fingerabdruck, Gesicht oder einer PIN Ihres Geräts anmelden.",
  ],
  "passkeys.accept": ["Set up a passkey", "Passkey einrichten"],
  "passkeys.later": ["Not now", "Nicht jetzt"],
  "passkeys.cancelled": [
    "No passkey was used. Please try again, or sign in with your password.",
    "Es wurde kein Passkey verwendet. Versuchen Sie es noch einmal, oder melden Sie sich mit Ihrem Passwort an.",
  ],
  "passkeys.exists": [
    "This device has a passkey of your account already.",
    "Dieses Gerät hat bereits einen Passkey Ihres Kontos.",
  ],
} as const satisfies Record<string, readonly [string, string]>;
