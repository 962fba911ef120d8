import { texts } from '../../lib/texts.ts'

export const t = texts('diagnosticsAdvice', {
  openKey: 'Open the key',
  openKeys: 'Open the keys',
  openProvider: 'Open the identity provider',
  openPlan: 'Open the plan',
  openDirectory: 'Open the directory',
  openConnectors: 'Open the connectors',
  steps: {
    origin: 'Add the page’s origin to the key’s allowed origins, or to the allowed domains if the key has none.',
    frame_origin: 'The page isn’t allowed to embed the widget. Add its origin to the key’s allowed origins.',
    socket_origin: 'The ticket was used on another page than the one it was issued for. Let each page get its own.',
    sockets: 'Too many connections are open. Close tabs, or limit connections per address at your proxy.',
    tabs: 'Too many tabs are open. Close some, or limit connections per address at your proxy.',
    definitions: 'The page offers more or larger tools than fit. Register fewer, or shorten their descriptions.',
    provider: 'Choose the provider, and enter its domain or issuer. In production, also enter your client ID.',
    provider_document: 'Inlay can’t get the provider’s documents. Run the test: it shows the same problem.',
    format: 'Pass the ID token unchanged, not an access token. It can have at most 16 KiB.',
    algorithm: 'The token isn’t signed with an accepted algorithm. Switch your application to RS256 at the provider.',
    key: 'The provider doesn’t publish the key that signed the token. Usually it’s from another tenant or environment.',
    signature: 'The token was changed, or another provider signed it.',
    issuer:
      'Correct the domain or issuer. Watch for another authorization server, a custom domain or a trailing slash.',
    audience:
      'If it’s your application’s client ID, add it to the client IDs. If it’s a URL, you’re passing the access token.',
    authorized_party: 'The token was issued to an application that isn’t in the list of client IDs. Add it.',
    expiry: 'Pass the widget a function that returns a fresh token, rather than a string.',
    not_before: 'The token is from the future. Compare the clocks: 60 seconds are tolerated.',
    issued_at: 'The token is from the future. Compare the clocks: 60 seconds are tolerated.',
    subject: 'The token needs a “sub” with at most 255 characters.',
    hosted_domain:
      'The Google account isn’t in your Workspace domain. Correct the domain, or remove it to admit all accounts.',
    plan: 'Your plan’s limit of end users is reached. Known end users can still connect.',
  },
  scim: 'Compare the settings at the directory with those here, and create a new token if it was lost.',
  connector: 'Test the connector: it goes through the same steps and shows where it fails.',
})

/** What to do about a refusal, and the page with the setting. */
export interface Advice {
  text: string
  link?: { name: string; path: string }
}

type KnownStep = keyof typeof t.steps
const keySteps = ['origin', 'frame_origin', 'socket_origin', 'sockets', 'tabs', 'definitions']

/** The checks of an ID token, in their order. */
export const tokenSteps: readonly (readonly [step: string, text: string])[] = (
  Object.entries(t.steps) as [KnownStep, string][]
)
  .filter(([step]) => !keySteps.includes(step) && step !== 'plan')
  .map(([step, text]) => [step === 'provider_document' ? 'provider_…' : step, text] as const)

export function adviceFor({
  surface,
  step,
  publishable_key_id,
}: {
  surface: string
  step: string
  publishable_key_id: string | null
}): Advice {
  if (surface === 'scim') return { text: t.scim, link: { name: t.openDirectory, path: 'directory' } }
  if (surface === 'delegated_identity') {
    return { text: t.connector, link: { name: t.openConnectors, path: 'connectors' } }
  }
  if (step === 'plan') return { text: t.steps.plan, link: { name: t.openPlan, path: 'billing' } }
  if (keySteps.includes(step)) {
    const link = publishable_key_id
      ? { name: t.openKey, path: `keys/${publishable_key_id}` }
      : { name: t.openKeys, path: 'keys' }
    return { text: t.steps[step as KnownStep], link }
  }
  const known = step in t.steps ? (step as KnownStep) : 'provider_document'
  return { text: t.steps[known], link: { name: t.openProvider, path: 'identity-provider' } }
}
