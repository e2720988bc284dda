/**
 * Texts about sign-in providers: sign-in, the page that receives their responses, and the list on
 * the security page.
 */
export const external = {
  "external.signIn": ["Continue with {provider}", "Weiter mit {provider}"],
  "external.terms": [
    "If you have no account yet, this creates one, and you accept the terms of use.",
    "Wenn Sie noch kein Konto haben, wird eines angelegt, und Sie stimmen den Nutzungsbedingungen zu.",
  ],
  "external.title": ["Sign-in with a provider", "Anmeldung bei einem Anbieter"],
  "external.wait": ["One moment, please.", "Einen Moment, bitte."],
  "external.again": ["Begin again", "Neu beginnen"],
  "external.incomplete": [
    "The provider has not answered. Please begin again.",
    "Der Anbieter hat nicht geantwortet. Bitte beginnen Sie neu.",
  ],
  "external.haveAccount": [
    "You have an account here. Sign in once as before, then {provider} is connected.",
    "Sie haben hier schon ein Konto. Melden Sie sich einmal wie bisher an, dann ist {provider} verbunden.",
  ],
  "external.noAccount": [
    "No account here is connected with this one. Please begin again, and sign in as before.",
    "Mit diesem Konto ist hier keines verbunden. Bitte beginnen Sie neu, und melden Sie sich wie bisher an.",
  ],
  "external.connected": ["The provider is connected.", "Der Anbieter ist verbunden."],
  "identities.title": ["Sign-in providers", "Anbieter für die Anmeldung"],
  "identities.about": [
    "Sign in with an account that you have elsewhere.",
    "Melden Sie sich mit einem Konto an, das Sie bei einem anderen Anbieter haben.",
  ],
  "identities.none": ["No provider is connected.", "Kein Anbieter ist verbunden."],
  "identities.connect": ["Connect {provider}", "{provider} verbinden"],
  "identities.disconnect": ["Disconnect", "Trennen"],
  "identities.disconnectTitle": ["Disconnect {provider}", "{provider} trennen"],
  "identities.disconnectAbout": [
    "{provider} will no longer sign in to your account.",
    "{provider} meldet dann nicht mehr an Ihrem Konto an.",
  ],
  "identities.created": ["Connected {time}", "Verbunden {time}"],
  "identities.used": ["last used {time}", "zuletzt verwendet {time}"],
} as const satisfies Record<string, readonly [string, string]>;
