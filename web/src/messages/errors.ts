/** A sentence for each code of the API and of its client, and for violations of fields. */
export const errors = {
  "errors.INTERNAL": [
    "Something went wrong on the server.",
    "Auf dem Server ist ein Fehler aufgetreten.",
  ],
  "errors.VALIDATION_FAILED": [
    "Please check the marked fields.",
    "Bitte prüfen Sie die markierten Felder.",
  ],
  "errors.MALFORMED_REQUEST": [
    "The server did not understand the request.",
    "Der Server hat die Anfrage nicht verstanden.",
  ],
  "errors.TOKEN_INVALID": [
    "This link is invalid, has expired or was already used.",
    "Dieser Link ist ungültig, abgelaufen oder wurde bereits verwendet.",
  ],
  "errors.INVALID_CURRENT_PASSWORD": [
    "The current password is wrong.",
    "Das aktuelle Passwort ist falsch.",
  ],
  "errors.UNAUTHENTICATED": ["Your session has ended.", "Ihre Sitzung ist abgelaufen."],
  "errors.INVALID_CREDENTIALS": [
    "The e-mail address or the password is wrong.",
    "E-Mail-Adresse oder Passwort ist falsch.",
  ],
  "errors.TICKET_INVALID": [
    "This sign-in took too long. Please start again.",
    "Die Anmeldung hat zu lange gedauert. Bitte beginnen Sie neu.",
  ],
  "errors.INVALID_CODE": [
    "The code is wrong or was already used.",
    "Der Code ist falsch oder wurde bereits verwendet.",
  ],
  "errors.REFRESH_TOKEN_INVALID": ["Your session has ended.", "Ihre Sitzung ist abgelaufen."],
  "errors.FORBIDDEN": ["You are not allowed to do this.", "Dazu sind Sie nicht berechtigt."],
  "errors.CROSS_SITE": [
    "The server does not accept requests from this website.",
    "Der Server nimmt keine Anfragen von dieser Website an.",
  ],
  "errors.EMAIL_NOT_VERIFIED": [
    "Please verify your e-mail address first: open the link that we sent you.",
    "Bitte bestätigen Sie zuerst Ihre E-Mail-Adresse: Öffnen Sie den Link, den wir Ihnen gesendet haben.",
  ],
  "errors.ACCOUNT_SUSPENDED": [
    "This account is suspended. Please contact an administrator.",
    "Dieses Konto ist stillgelegt. Bitte wenden Sie sich an einen Administrator.",
  ],
  "errors.PASSWORD_EXPIRED": [
    "Your password has expired. We sent you an e-mail with a link to set a new one.",
    "Ihr Passwort ist abgelaufen. Wir haben Ihnen eine E-Mail mit einem Link für ein neues gesendet.",
  ],
  "errors.IMPERSONATING": [
    "You can't do this while you are acting as another user.",
    "Das geht nicht, solange Sie als anderer Benutzer angemeldet sind.",
  ],
  "errors.NOT_FOUND": ["This no longer exists.", "Das gibt es nicht mehr."],
  "errors.METHOD_NOT_ALLOWED": [
    "The server does not support this.",
    "Der Server unterstützt das nicht.",
  ],
  "errors.REQUEST_TIMEOUT": ["The request took too long.", "Die Anfrage hat zu lange gedauert."],
  "errors.EMAIL_TAKEN": [
    "Another account uses this e-mail address.",
    "Ein anderes Konto verwendet diese E-Mail-Adresse.",
  ],
  "errors.MFA_ALREADY_ENABLED": [
    "Two-factor authentication is already on.",
    "Die Zwei-Faktor-Authentifizierung ist schon eingeschaltet.",
  ],
  "errors.MFA_NOT_ENABLED": [
    "Two-factor authentication is off.",
    "Die Zwei-Faktor-Authentifizierung ist ausgeschaltet.",
  ],
  "errors.SELF_TARGETED": [
    "You can't do this to your own account.",
    "Das geht nicht mit Ihrem eigenen Konto.",
  ],
  "errors.LAST_ADMIN": [
    "There must be at least one administrator.",
    "Es muss mindestens einen Administrator geben.",
  ],
  "errors.PASSKEY_INVALID": [
    "The passkey was not accepted. Please try again.",
    "Der Passkey wurde nicht angenommen. Bitte versuchen Sie es noch einmal.",
  ],
  "errors.PASSKEY_UNKNOWN": [
    "This passkey is not known here. It may have been removed from your account.",
    "Dieser Passkey ist hier nicht bekannt. Vielleicht wurde er aus Ihrem Konto entfernt.",
  ],
  "errors.EXTERNAL_FAILED": [
    "Signing in with this provider failed. Please start again in this browser.",
    "Die Anmeldung über diesen Anbieter ist fehlgeschlagen. Bitte beginnen Sie in diesem Browser neu.",
  ],
  "errors.IDENTITY_TAKEN": [
    "This provider account is connected to another account here. Please disconnect it there first.",
    "Dieses Konto beim Anbieter ist hier mit einem anderen Konto verbunden. Bitte trennen Sie es dort zuerst.",
  ],
  "errors.EXTERNAL_EMAIL_MISSING": [
    "The provider did not tell us your e-mail address, but a new account needs one.",
    "Der Anbieter hat uns Ihre E-Mail-Adresse nicht mitgeteilt, aber ein neues Konto braucht eine.",
  ],
  "errors.SIGN_UP_CLOSED": [
    "You can't register with this e-mail address. Please ask for an invitation.",
    "Mit dieser E-Mail-Adresse können Sie sich nicht registrieren. Bitten Sie um eine Einladung.",
  ],
  "errors.LAST_SIGN_IN_METHOD": [
    "This is the last way to sign in to your account. Add another one first.",
    "Das ist die letzte Möglichkeit, sich bei Ihrem Konto anzumelden. Richten Sie zuerst eine andere ein.",
  ],
  "errors.CONFLICT": [
    "This is not possible right now. Reload the page to see what has changed.",
    "Das ist gerade nicht möglich. Laden Sie die Seite neu, um zu sehen, was sich geändert hat.",
  ],
  "errors.PAYLOAD_TOO_LARGE": ["This is too much text.", "Das ist zu viel Text."],
  "errors.UNSUPPORTED_MEDIA_TYPE": [
    "The server does not support this format.",
    "Der Server unterstützt dieses Format nicht.",
  ],
  "errors.PROVIDER_NOT_CONFIGURED": [
    "This provider is not set up.",
    "Dieser Anbieter ist nicht eingerichtet.",
  ],
  "errors.ACCOUNT_LOCKED": [
    "This account is locked because of too many failed attempts.",
    "Dieses Konto ist wegen zu vieler Fehlversuche gesperrt.",
  ],
  "errors.RATE_LIMITED": [
    "Too many requests. Please wait a moment.",
    "Zu viele Anfragen. Bitte warten Sie einen Moment.",
  ],
  "errors.PROVIDER_ERROR": [
    "The AI provider failed.",
    "Beim KI-Anbieter ist ein Fehler aufgetreten.",
  ],
  "errors.NOT_IMPLEMENTED": [
    "The server does not support this yet.",
    "Der Server unterstützt das noch nicht.",
  ],
  "errors.UNAVAILABLE": [
    "The server is busy. Please try again.",
    "Der Server ist ausgelastet. Bitte versuchen Sie es erneut.",
  ],
  "errors.CANCELLED": ["Cancelled.", "Abgebrochen."],
  "errors.TOO_MANY_CONCURRENT": [
    "Too many requests at once. Please wait a moment.",
    "Zu viele Anfragen gleichzeitig. Bitte warten Sie einen Moment.",
  ],
  "errors.REAUTHENTICATION_REQUIRED": [
    "You signed in too long ago for this. Please sign out and in again.",
    "Ihre Anmeldung liegt dafür zu lange zurück. Bitte melden Sie sich ab und wieder an.",
  ],
  "errors.MFA_REQUIRED": [
    "Administrators must use two-factor authentication here.",
    "Administratoren müssen hier die Zwei-Faktor-Authentifizierung verwenden.",
  ],
  "errors.KEY_NOT_ALLOWED": [
    "API keys can't do this. Please sign in.",
    "Das geht nicht mit einem API-Schlüssel. Bitte melden Sie sich an.",
  ],
  "errors.MODEL_NOT_PRICED": [
    "This model has no price, but a budget limits the cost of your calls. Please choose another model.",
    "Dieses Modell hat keinen Preis, aber ein Budget begrenzt die Kosten Ihrer Aufrufe. Bitte wählen Sie ein anderes Modell.",
  ],
  "errors.BUDGET_EXCEEDED": [
    "There is not enough budget left for this call.",
    "Das Budget reicht für diesen Aufruf nicht mehr.",
  ],
  "errors.NETWORK_ERROR": ["The server can't be reached.", "Der Server ist nicht erreichbar."],
  "errors.STREAM_ERROR": ["The reply is incomplete.", "Die Antwort ist unvollständig."],
  "errors.UNEXPECTED_RESPONSE": [
    "The server sent an unexpected response.",
    "Der Server hat eine unerwartete Antwort gesendet.",
  ],

  "refused.ownAccess": [
    "Change your own address and second factor in your security settings.",
    "Ändern Sie Ihre eigene Adresse und Ihren zweiten Faktor in Ihren Sicherheitseinstellungen.",
  ],
  "refused.ownRole": [
    "Only another administrator can change your role, or delete this account here.",
    "Nur ein anderer Administrator kann Ihre Rolle ändern oder dieses Konto hier löschen.",
  ],
  "refused.administratorAccess": [
    "You can't change the address or the second factor of another administrator. Change the role first.",
    "Adresse und zweiter Faktor eines anderen Administrators lassen sich nicht ändern. Ändern Sie zuerst die Rolle.",
  ],
  "refused.serviceAccount": [
    "You can change only the name, the metadata and the suspension of a service account.",
    "Bei einem Dienstkonto können Sie nur Namen, Metadaten und Stilllegung ändern.",
  ],
  "refused.suspended": [
    "This user is suspended. Reinstate the user first.",
    "Dieses Konto ist stillgelegt. Lassen Sie es zuerst wieder zu.",
  ],
  "refused.suspendAdmin": [
    "Administrators can't be suspended. Change the role first.",
    "Administratoren können nicht stillgelegt werden. Ändern Sie zuerst die Rolle.",
  ],
  "refused.impersonateAdmin": [
    "You can't sign in as another administrator.",
    "Als anderer Administrator können Sie sich nicht anmelden.",
  ],

  "violations.must be {0} to {1} characters": [
    "enter {0} to {1} characters",
    "geben Sie {0} bis {1} Zeichen ein",
  ],
  "violations.must be a number such as {0} or {1}.{2}": [
    "enter a number such as 20 or 0.50",
    "geben Sie eine Zahl wie 20 oder 0,50 ein",
  ],
  "violations.must be at most {0},{1},{2}, with at most nine decimal places": [
    "enter at most 1,000,000, with at most nine decimal places",
    "geben Sie höchstens 1.000.000 ein, mit höchstens neun Nachkommastellen",
  ],
  "violations.must be a whole number of tokens, at most {0},{1},{2},{3},{4},{5}": [
    "enter a whole number of tokens",
    "geben Sie eine ganze Zahl von Tokens ein",
  ],
  "violations.must not be empty": ["fill in this field", "füllen Sie dieses Feld aus"],
  "violations.must be in the future": [
    "choose a time in the future",
    "wählen Sie einen Zeitpunkt in der Zukunft",
  ],
  "violations.must be six digits": ["enter the six digits", "geben Sie die sechs Ziffern ein"],
  "violations.must be eight letters and digits, such as ABCD-{0}": [
    "enter eight letters and digits, such as ABCD-{0}",
    "geben Sie acht Buchstaben und Ziffern ein, zum Beispiel ABCD-{0}",
  ],
  "violations.must be {0} to {1} letters, digits, hyphens, underscores and dots": [
    "enter the token from the e-mail",
    "geben Sie das Token aus der E-Mail ein",
  ],
  "violations.must not be made of your e-mail address, your name or the name of this service": [
    "do not build it from your e-mail address, your name or the name of this service",
    "bilden Sie es nicht aus Ihrer E-Mail-Adresse, Ihrem Namen oder dem Namen dieses Dienstes",
  ],
  "violations.must be {0} to {1} characters, without control characters": [
    "fill in this field, with at most {1} characters",
    "füllen Sie dieses Feld aus, mit höchstens {1} Zeichen",
  ],
  "violations.must be at least {0} characters": [
    "fill in this field",
    "füllen Sie dieses Feld aus",
  ],
  "violations.must be at most {0} characters": [
    "enter at most {0} characters",
    "geben Sie höchstens {0} Zeichen ein",
  ],
  "violations.must be a page that this service is configured for": [
    "must be a page that this service is configured for",
    "muss eine Seite sein, für die dieser Dienst eingerichtet ist",
  ],
  "violations.is required with email, unless token is given alone": [
    "fill in this field",
    "füllen Sie dieses Feld aus",
  ],
  "violations.must be the address to which the e-mail was sent": [
    "enter the address that received the e-mail",
    "geben Sie die Adresse ein, an die die E-Mail ging",
  ],
  "violations.must be a valid UUID": ["enter a complete ID", "geben Sie eine vollständige ID ein"],
  "violations.must be a valid e-mail address": [
    "enter a valid e-mail address",
    "geben Sie eine gültige E-Mail-Adresse ein",
  ],
  "violations.must be true: the terms have to be accepted": [
    "please accept the terms of use",
    "bitte akzeptieren Sie die Nutzungsbedingungen",
  ],
  "violations.must contain a digit": ["add a digit", "ergänzen Sie eine Ziffer"],
  "violations.must contain a lowercase letter": [
    "add a lowercase letter",
    "ergänzen Sie einen Kleinbuchstaben",
  ],
  "violations.must contain a special character": [
    "add a special character",
    "ergänzen Sie ein Sonderzeichen",
  ],
  "violations.must contain a visible character": [
    "enter a visible character",
    "geben Sie ein sichtbares Zeichen ein",
  ],
  "violations.must contain an uppercase letter": [
    "add an uppercase letter",
    "ergänzen Sie einen Großbuchstaben",
  ],
  "violations.must not contain control characters": [
    "remove the control characters",
    "entfernen Sie die Steuerzeichen",
  ],
  "violations.must not contain NUL characters": [
    "remove the control characters",
    "entfernen Sie die Steuerzeichen",
  ],
  "violations.must not be your e-mail address or name": [
    "do not use your e-mail address or your name",
    "verwenden Sie nicht Ihre E-Mail-Adresse oder Ihren Namen",
  ],
  "violations.is one of the most common passwords, or one of them with digits and symbols added": [
    "this is one of the most common passwords, or one of them with digits and symbols added",
    "das ist eines der häufigsten Passwörter oder eines davon mit zusätzlichen Ziffern und Zeichen",
  ],
  "violations.must differ from the current password": [
    "choose a password other than the current one",
    "wählen Sie ein anderes als das aktuelle Passwort",
  ],
  "violations.must differ from the one that has expired": [
    "choose a password other than the expired one",
    "wählen Sie ein anderes als das abgelaufene Passwort",
  ],
  "violations.must be a language tag, such as de or en-GB": [
    "enter a language tag, such as de or en-GB",
    "geben Sie ein Sprachkürzel ein, zum Beispiel de oder en-GB",
  ],
  "violations.must be at most {0} bytes of JSON": [
    "must be at most {0} bytes of JSON",
    "darf höchstens {0} Bytes JSON lang sein",
  ],
  "violations.must be nested at most {0} levels deep": [
    "must be nested at most {0} levels deep",
    "darf höchstens {0} Ebenen tief verschachtelt sein",
  ],
  "violations.must not contain NUL characters or lone surrogates": [
    "must not contain control characters or damaged characters",
    "darf keine Steuerzeichen und keine beschädigten Zeichen enthalten",
  ],
  "violations.must not contain numbers beyond {0}": [
    "must not contain numbers beyond {0}",
    "darf keine Zahlen jenseits von {0} enthalten",
  ],
  "violations.must differ from the current address": [
    "enter an address other than the current one",
    "geben Sie eine andere als die aktuelle Adresse ein",
  ],
  "violations.is required unless backupCode is given": [
    "fill in this field",
    "füllen Sie dieses Feld aus",
  ],
  "violations.is required if you signed in more than {0} minutes ago": [
    "please fill this in: you signed in more than {0} minutes ago",
    "bitte füllen Sie dieses Feld aus: Ihre Anmeldung liegt mehr als {0} Minuten zurück",
  ],
} as const satisfies Record<string, readonly [string, string]>;
