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
  "external.title": ["Sign-in with a provider", "Anmeldung über einen Anbieter"],
  "external.wait": ["One moment, please.", "Einen Moment, bitte."],
  "external.again": ["Start again", "Neu beginnen"],
  "external.incomplete": [
    "The provider did not respond. Please start again.",
    "Der Anbieter hat nicht geantwortet. Bitte beginnen Sie neu.",
  ],
  "external.haveAccount": [
    "You already have an account here. Sign in once the way you usually do, and {provider} will be connected.",
    "Sie haben hier schon ein Konto. Melden Sie sich einmal wie gewohnt an, dann wird {provider} verbunden.",
  ],
  "external.noAccount": [
    "No account here is connected with this one. Please start again, and sign in the way you usually do.",
    "Mit diesem Konto ist hier keines verbunden. Bitte beginnen Sie neu, und melden Sie sich wie gewohnt an.",
  ],
  "external.connected": ["The provider has been connected.", "Der Anbieter wurde verbunden."],
  "identities.title": ["Sign-in providers", "Anmeldeanbieter"],
  "identities.about": [
    "Sign in with an account that you have at another provider.",
    "Melden Sie sich mit einem Konto an, das Sie bei einem anderen Anbieter haben.",
  ],
  "identities.none": ["No provider is connected.", "Kein Anbieter ist verbunden."],
  "identities.connect": ["Connect {provider}", "{provider} verbinden"],
  "identities.disconnect": ["Disconnect", "Trennen"],
  "identities.disconnectTitle": ["Disconnect {provider}", "{provider} trennen"],
  "identities.disconnectAbout": [
    "You can then no longer sign in with {provider}.",
    "Mit {provider} können Sie sich dann nicht mehr anmelden.",
  ],
  "identities.created": ["Connected {time}", "Verbunden {time}"],
  "identities.used": ["last used {time}", "zuletzt verwendet {time}"],
} as const satisfies Record<string, readonly [string, string]>;
