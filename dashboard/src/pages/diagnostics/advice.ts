import { texts } from '../../lib/texts.ts'

const t = texts({
  en: {
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
  },
  de: {
    openKey: 'Key öffnen',
    openKeys: 'Keys öffnen',
    openProvider: 'Identity Provider öffnen',
    openPlan: 'Tarif öffnen',
    openDirectory: 'Verzeichnis öffnen',
    openConnectors: 'Konnektoren öffnen',
    steps: {
      origin:
        'Fügen Sie den Origin der Seite zu den erlaubten Origins des Keys hinzu, oder zu den erlaubten Domains, wenn der Key keine hat.',
      frame_origin:
        'Die Seite darf das Widget nicht einbetten. Fügen Sie ihren Origin zu den erlaubten Origins des Keys hinzu.',
      socket_origin:
        'Das Ticket wurde auf einer anderen Seite verwendet als der, für die es ausgestellt wurde. Jede Seite braucht ein eigenes.',
      sockets: 'Zu viele Verbindungen sind offen. Schließen Sie Tabs, oder begrenzen Sie Verbindungen an Ihrem Proxy.',
      tabs: 'Zu viele Tabs sind offen. Schließen Sie einige, oder begrenzen Sie Verbindungen an Ihrem Proxy.',
      definitions:
        'Die Seite bietet mehr oder größere Tools an, als Platz haben. Registrieren Sie weniger, oder kürzen Sie die Beschreibungen.',
      provider:
        'Wählen Sie den Provider, und geben Sie seine Domain oder seinen Issuer ein. In Produktion auch Ihre Client-ID.',
      provider_document: 'Inlay bekommt die Dokumente des Providers nicht. Der Test zeigt dasselbe Problem.',
      format: 'Übergeben Sie das ID-Token unverändert, kein Access-Token. Es darf höchstens 16 KiB haben.',
      algorithm:
        'Das Token ist nicht mit einem akzeptierten Algorithmus signiert. Stellen Sie Ihre Anwendung beim Provider auf RS256 um.',
      key: 'Der Provider veröffentlicht den Schlüssel nicht, der das Token signiert hat. Meist stammt es aus einem anderen Mandanten.',
      signature: 'Das Token wurde verändert, oder ein anderer Provider hat es signiert.',
      issuer:
        'Korrigieren Sie Domain oder Issuer. Achten Sie auf einen anderen Authorization Server, eine eigene Domain oder einen Schrägstrich am Ende.',
      audience:
        'Ist es die Client-ID Ihrer Anwendung, fügen Sie sie hinzu. Ist es eine URL, übergeben Sie das Access-Token.',
      authorized_party: 'Das Token wurde für eine Anwendung ausgestellt, deren Client-ID fehlt. Fügen Sie sie hinzu.',
      expiry: 'Übergeben Sie dem Widget eine Funktion, die ein frisches Token liefert, statt eines Textes.',
      not_before: 'Das Token stammt aus der Zukunft. Vergleichen Sie die Uhren: 60 Sekunden werden toleriert.',
      issued_at: 'Das Token stammt aus der Zukunft. Vergleichen Sie die Uhren: 60 Sekunden werden toleriert.',
      subject: 'Das Token braucht ein „sub“ mit höchstens 255 Zeichen.',
      hosted_domain:
        'Das Google-Konto gehört nicht zu Ihrer Workspace-Domain. Korrigieren Sie die Domain, oder entfernen Sie sie, um alle Konten zuzulassen.',
      plan: 'Die Grenze der Endnutzer Ihres Tarifs ist erreicht. Bekannte Endnutzer können sich weiter verbinden.',
    },
    scim: 'Vergleichen Sie die Einstellungen im Verzeichnis mit denen hier, und erstellen Sie ein neues Token, wenn es verloren ging.',
    connector: 'Testen Sie den Konnektor: Der Test geht dieselben Schritte und zeigt, wo es scheitert.',
  },
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
