import { plainText } from '../frame/plain-text.ts'

/**
 * All texts of the panel. `{name}` is replaced by a value. Keys that end in a plural category of `Intl.PluralRules`
 * belong together; `_other` is always there.
 */
export const english = {
  agent: 'Agent',
  close: 'Close',
  back: 'Back to the chat',
  newConversation: 'New conversation',
  conversations: 'Conversations',
  activity: 'Activity',
  tools_one: '{count} tool on this page',
  tools_other: '{count} tools on this page',
  services_one: '{count} service',
  services_other: '{count} services',
  listDivider: ' · ',
  actingAsUser: 'Acts with your permissions',
  answersCanBeWrong: 'Answers can be wrong',

  statusIdle: 'Not connected',
  statusConnecting: 'Connecting…',
  statusConnected: 'Connected',
  statusWaiting: 'Connection lost, reconnecting…',
  statusUnidentified: 'Signing in again…',
  statusRefused: 'Not available',
  offline: 'You’re offline. Your messages are sent as soon as you’re back.',
  reconnecting: 'Trying to reach the server. Your messages are sent as soon as it responds.',
  restarting: 'The server is restarting. This takes a few seconds, and nothing is lost.',
  expired: 'Your session has expired, and the page is renewing it. If this doesn’t end, reload the page.',
  notConnected: 'The page has disconnected the agent. Reload the page to use it again.',
  notConfigured: 'The agent isn’t set up yet',
  notConfiguredRemedy: 'An administrator has to choose a model first.',
  signInNeeded: 'Sign in to use the agent',
  signInNeededRemedy:
    'This site’s agent only answers users who are signed in. Sign in on this page, and then ask again.',
  budgetReached: 'The budget is used up',
  tryAgainAt: 'Try again at {time}.',
  tooLate: 'The agent can’t answer',
  conversationGone: 'This conversation was deleted. You can send the message in a new one.',
  tooManyWaiting: 'Too many messages are waiting. Send this one later.',
  stillAnswering: 'The agent is still answering. Stop it first.',
  adopt: 'Keep the conversation that you had before you signed in?',
  adoptYes: 'Keep it',
  adoptNo: 'No',

  greeting: 'How can I help?',
  log: 'Conversation',
  starterPrompts: 'Suggestions',
  loading: 'Loading the conversation…',
  loadingEarlier: 'Loading earlier messages…',
  jumpToLatest: 'Jump to latest',
  you: 'You',
  working: 'The agent is working',
  messageWaiting: 'Sent when you’re back online',
  messageQueued: 'The agent reads this at its next step',
  messageRefused: 'Not sent',
  messageElsewhere: 'Continued in another tab',
  retry: 'Try again',
  retryAnswer: 'Retry',
  copy: 'Copy',
  copied: 'Copied',
  code: 'Code',
  selectedCode: 'Selected: press Ctrl+C',
  table: 'Table',
  itemDone: 'Done',
  itemNotDone: 'Not done',
  edit: 'Edit',
  editMessage: 'Edit your message',
  save: 'Send again',
  cancel: 'Cancel',
  regenerate: 'Answer again',
  rateUp: 'Good answer',
  rateDown: 'Bad answer',
  ratingComment: 'What was wrong with it? (optional)',
  sendComment: 'Send feedback',
  thanks: 'Thank you for the feedback.',
  stopped: 'You stopped this answer.',
  failed: 'The agent couldn’t finish',
  errorCode: 'Code: {code}',
  summary: 'Earlier messages were summarized for the agent',
  skillUsed: 'Skill',

  compose: 'Message to the agent',
  placeholder: 'Ask anything',
  placeholderSkills: 'Ask anything, or type / for skills',
  send: 'Send',
  stop: 'Stop',
  skills: 'Skills',
  removeSkill: 'Remove the skill {name}',
  characters: '{count} of {limit} characters',
  tooLong: 'This message is too long. Shorten it to {limit} characters.',

  toolRunning: 'Running',
  toolAsking: 'Waiting for approval',
  toolDone: 'Done',
  toolFailed: 'Failed',
  toolDeclined: 'Declined',
  onThisPage: 'on this page',
  inOtherTab: 'in another tab',
  builtIn: 'built in',
  toolInput: 'Input, from the agent',
  toolEdited: 'Input, as you changed it',
  toolOutput: 'Result ({source})',
  toolError: 'Error ({source})',
  theTool: 'tool',
  seconds: '{count} s',

  searchConversations: 'Search conversations',
  current: 'Recent',
  archive: 'Archive',
  untitled: 'Untitled conversation',
  threadRunning: 'Working',
  threadWaiting: 'Waiting for you',
  renameNamed: 'Rename “{name}”',
  archiveNamed: 'Archive “{name}”',
  unarchiveNamed: 'Restore “{name}”',
  deleteNamed: 'Delete “{name}”',
  title: 'Title',
  saveTitle: 'Save',
  confirmDelete: 'Delete “{name}”? This can’t be undone.',
  deleteIt: 'Delete',
  noConversations: 'You have no conversations yet.',
  noArchive: 'You have no archived conversations.',
  noMatches: 'No conversation matches your search.',
  more: 'Show more',

  callsForSignedIn: 'Calls from your assistants to this page appear here.',
  callsForAnonymous: 'You’re not signed in to this site. Assistants can only use this page for visitors who are.',
  calls: 'Calls',
  earlierCalls: 'Earlier',
  callInput: 'Input',
  stateAllowed: 'Allowed',
  stateCancelled: 'Cancelled',
  toolsOnPage: 'Tools on this page',
  readsOnly: 'Reads only',
  alwaysAllowed: 'Always allowed',
  asksFirst: 'Asks first',
  notOffered: '{name} isn’t offered: {reason}',
  permissions_one: '{count} standing permission',
  permissions_other: '{count} standing permissions',
  standingPermissions: 'Standing permissions',
  permissionExtent: 'Runs without asking until you leave this page.',
  revoke: 'Revoke',
  revokeNamed: 'Revoke “{name}”',

  question: 'Allow “{name}”?',
  place: '{count} of {total}',
  yourAssistant: 'Your assistant',
  theAgent: 'The agent',
  wishOnPage: '{client} wants to use a tool on this page. The page describes it as:',
  wishElsewhere:
    '{client} wants to use the tool {tool} on your organization’s server {origin} as you. It doesn’t run on this page. The server describes it as:',
  askOnPage: '{client} wants to use a tool on this page. It may change something here.',
  askInTab: '{client} wants to use a tool on another page of yours, {source}. It may change something there.',
  askAtConnector:
    '{client} wants to use the tool {tool} of the service {source} as you. It may change something there.',
  askBuiltIn: '{client} wants to use the built-in tool {tool}.',
  askAnywhere: '{client} wants to use the tool {tool}. It may change something.',
  askReason: 'Why you’re asked: {reason}',
  alreadyAllowed: 'You have already allowed this call with the same input.',
  questionInput: 'Input:',
  noInput: 'No input',
  showAll: 'Show all: {count} more characters',
  inputOfCall: 'Input of the call',
  showJson: 'Show as JSON',
  hideJson: 'Hide JSON',
  exactInput: 'Exact input',
  allowOnce: 'Allow once',
  decline: 'Decline',
  moreOptions: 'More options',
  alwaysHere: 'Always allow here',
  alwaysInThread: 'Always in this conversation',
  nextQuestion: 'Comes next, after the question above',
  connect: 'Connect {name}',
  connectNeeded: 'The agent needs your account at {name}',
  connectHint: 'Connect it in a new tab. Then come back here, and continue.',
  connectContinue: 'Continue',
  connectMessage: 'I’ve connected {name}.',
  connected: '{name} is connected. You can close this tab, and continue in the conversation.',
  covered: 'The page covers this question. Close what’s on top of it, so that you can see what you allow.',
  withdrawn: '{client} is no longer waiting for “{name}”: {reason}. Nothing was done.',
  needsValue: 'Enter a value.',
  needsNumber: 'Enter a number.',
  needsInteger: 'Enter a whole number.',
  needsAtLeast: 'Enter {limit} or more.',
  needsAtMost: 'Enter {limit} or less.',
  needsLonger: 'Enter at least {limit} characters.',
  needsShorter: 'Enter at most {limit} characters.',
  needsJson: 'Enter valid JSON.',
  yes: 'Yes',
  no: 'No',
  notSet: 'Not set',

  announceQuestion: 'Waiting for your approval: {name}.',
  announceDone: 'The agent has answered.',
  announceFailed: 'The agent couldn’t finish: {reason}',
  announceWorking: 'The agent is working.',
}

export type StringKey = keyof typeof english
type PluralKey = { [Key in StringKey]: Key extends `${infer Base}_other` ? Base : never }[StringKey]
export type Values = Record<string, string | number>

export const german: Record<StringKey, string> = {
  agent: 'Agent',
  close: 'Schließen',
  back: 'Zurück zum Chat',
  newConversation: 'Neue Unterhaltung',
  conversations: 'Unterhaltungen',
  activity: 'Aktivität',
  tools_one: '{count} Werkzeug auf dieser Seite',
  tools_other: '{count} Werkzeuge auf dieser Seite',
  services_one: '{count} Dienst',
  services_other: '{count} Dienste',
  listDivider: ' · ',
  actingAsUser: 'Handelt mit Ihren Rechten',
  answersCanBeWrong: 'Antworten können falsch sein',

  statusIdle: 'Nicht verbunden',
  statusConnecting: 'Verbindung wird hergestellt…',
  statusConnected: 'Verbunden',
  statusWaiting: 'Verbindung verloren, neuer Versuch…',
  statusUnidentified: 'Anmeldung wird erneuert…',
  statusRefused: 'Nicht verfügbar',
  offline: 'Sie sind offline. Ihre Nachrichten werden gesendet, sobald die Verbindung wieder da ist.',
  reconnecting: 'Der Server wird gesucht. Ihre Nachrichten werden gesendet, sobald er antwortet.',
  restarting: 'Der Server startet neu. Das dauert ein paar Sekunden, und nichts geht verloren.',
  expired: 'Ihre Sitzung ist abgelaufen und wird von der Seite erneuert. Dauert es zu lange, laden Sie die Seite neu.',
  notConnected: 'Die Seite hat den Agenten getrennt. Laden Sie die Seite neu, um ihn wieder zu nutzen.',
  notConfigured: 'Der Agent ist noch nicht eingerichtet',
  notConfiguredRemedy: 'Ein Administrator muss erst ein Modell wählen.',
  signInNeeded: 'Melden Sie sich an, um den Agenten zu nutzen',
  signInNeededRemedy: 'Hier antwortet der Agent nur angemeldeten Nutzern. Melden Sie sich auf dieser Seite an.',
  budgetReached: 'Das Budget ist aufgebraucht',
  tryAgainAt: 'Versuchen Sie es um {time} wieder.',
  tooLate: 'Der Agent kann nicht antworten',
  conversationGone: 'Diese Unterhaltung wurde gelöscht. Sie können die Nachricht in einer neuen senden.',
  tooManyWaiting: 'Zu viele Nachrichten warten. Senden Sie diese später.',
  stillAnswering: 'Der Agent antwortet noch. Stoppen Sie ihn zuerst.',
  adopt: 'Die Unterhaltung von vor der Anmeldung behalten?',
  adoptYes: 'Behalten',
  adoptNo: 'Nein',

  greeting: 'Wie kann ich helfen?',
  log: 'Unterhaltung',
  starterPrompts: 'Vorschläge',
  loading: 'Die Unterhaltung wird geladen…',
  loadingEarlier: 'Frühere Nachrichten werden geladen…',
  jumpToLatest: 'Zum Ende springen',
  you: 'Sie',
  working: 'Der Agent arbeitet',
  messageWaiting: 'Wird gesendet, sobald Sie online sind',
  messageQueued: 'Der Agent liest das beim nächsten Schritt',
  messageRefused: 'Nicht gesendet',
  messageElsewhere: 'In einem anderen Tab fortgesetzt',
  retry: 'Erneut versuchen',
  retryAnswer: 'Wiederholen',
  copy: 'Kopieren',
  copied: 'Kopiert',
  code: 'Code',
  selectedCode: 'Markiert: Strg+C drücken',
  table: 'Tabelle',
  itemDone: 'Erledigt',
  itemNotDone: 'Nicht erledigt',
  edit: 'Bearbeiten',
  editMessage: 'Ihre Nachricht bearbeiten',
  save: 'Erneut senden',
  cancel: 'Abbrechen',
  regenerate: 'Neu antworten',
  rateUp: 'Gute Antwort',
  rateDown: 'Schlechte Antwort',
  ratingComment: 'Was war falsch? (freiwillig)',
  sendComment: 'Rückmeldung senden',
  thanks: 'Danke für die Rückmeldung.',
  stopped: 'Sie haben diese Antwort gestoppt.',
  failed: 'Der Agent ist nicht fertig geworden',
  errorCode: 'Code: {code}',
  summary: 'Frühere Nachrichten wurden für den Agenten zusammengefasst',
  skillUsed: 'Skill',

  compose: 'Nachricht an den Agenten',
  placeholder: 'Fragen Sie etwas',
  placeholderSkills: 'Fragen Sie etwas, oder / für Skills',
  send: 'Senden',
  stop: 'Stoppen',
  skills: 'Skills',
  removeSkill: 'Skill {name} entfernen',
  characters: '{count} von {limit} Zeichen',
  tooLong: 'Diese Nachricht ist zu lang. Kürzen Sie sie auf {limit} Zeichen.',

  toolRunning: 'Läuft',
  toolAsking: 'Wartet auf Zustimmung',
  toolDone: 'Fertig',
  toolFailed: 'Fehlgeschlagen',
  toolDeclined: 'Abgelehnt',
  onThisPage: 'auf dieser Seite',
  inOtherTab: 'in einem anderen Tab',
  builtIn: 'eingebaut',
  toolInput: 'Eingabe, vom Agenten',
  toolEdited: 'Eingabe, von Ihnen geändert',
  toolOutput: 'Ergebnis ({source})',
  toolError: 'Fehler ({source})',
  theTool: 'Werkzeug',
  seconds: '{count} s',

  searchConversations: 'Unterhaltungen durchsuchen',
  current: 'Aktuell',
  archive: 'Archiv',
  untitled: 'Unterhaltung ohne Titel',
  threadRunning: 'Arbeitet',
  threadWaiting: 'Wartet auf Sie',
  renameNamed: '„{name}“ umbenennen',
  archiveNamed: '„{name}“ archivieren',
  unarchiveNamed: '„{name}“ wiederherstellen',
  deleteNamed: '„{name}“ löschen',
  title: 'Titel',
  saveTitle: 'Speichern',
  confirmDelete: '„{name}“ löschen? Das kann nicht rückgängig gemacht werden.',
  deleteIt: 'Löschen',
  noConversations: 'Sie haben noch keine Unterhaltungen.',
  noArchive: 'Sie haben keine archivierten Unterhaltungen.',
  noMatches: 'Keine Unterhaltung passt zu Ihrer Suche.',
  more: 'Mehr anzeigen',

  callsForSignedIn: 'Hier erscheinen Aufrufe Ihrer Assistenten an diese Seite.',
  callsForAnonymous: 'Sie sind hier nicht angemeldet. Assistenten nutzen diese Seite nur für angemeldete Besucher.',
  calls: 'Aufrufe',
  earlierCalls: 'Früher',
  callInput: 'Eingabe',
  stateAllowed: 'Erlaubt',
  stateCancelled: 'Abgebrochen',
  toolsOnPage: 'Werkzeuge auf dieser Seite',
  readsOnly: 'Liest nur',
  alwaysAllowed: 'Immer erlaubt',
  asksFirst: 'Fragt vorher',
  notOffered: '{name} wird nicht angeboten: {reason}',
  permissions_one: '{count} dauerhafte Erlaubnis',
  permissions_other: '{count} dauerhafte Erlaubnisse',
  standingPermissions: 'Dauerhafte Erlaubnisse',
  permissionExtent: 'Läuft ohne Rückfrage, bis Sie diese Seite verlassen.',
  revoke: 'Widerrufen',
  revokeNamed: '„{name}“ widerrufen',

  question: '„{name}“ erlauben?',
  place: '{count} von {total}',
  yourAssistant: 'Ihr Assistent',
  theAgent: 'Der Agent',
  wishOnPage: '{client} möchte ein Werkzeug auf dieser Seite nutzen. Die Seite beschreibt es so:',
  wishElsewhere:
    '{client} möchte in Ihrem Namen das Werkzeug {tool} auf dem Server {origin} Ihrer Organisation nutzen. Es läuft nicht auf dieser Seite. Der Server beschreibt es so:',
  askOnPage: '{client} möchte ein Werkzeug auf dieser Seite nutzen. Es kann hier etwas ändern.',
  askInTab:
    '{client} möchte ein Werkzeug auf einer anderen Seite von Ihnen nutzen, {source}. Es kann dort etwas ändern.',
  askAtConnector:
    '{client} möchte in Ihrem Namen das Werkzeug {tool} des Dienstes {source} nutzen. Es kann dort etwas ändern.',
  askBuiltIn: '{client} möchte das eingebaute Werkzeug {tool} nutzen.',
  askAnywhere: '{client} möchte das Werkzeug {tool} nutzen. Es kann etwas ändern.',
  askReason: 'Warum Sie gefragt werden: {reason}',
  alreadyAllowed: 'Diesen Aufruf mit derselben Eingabe haben Sie schon erlaubt.',
  questionInput: 'Eingabe:',
  noInput: 'Keine Eingabe',
  showAll: 'Alles zeigen: {count} weitere Zeichen',
  inputOfCall: 'Eingabe des Aufrufs',
  showJson: 'Als JSON zeigen',
  hideJson: 'JSON ausblenden',
  exactInput: 'Genaue Eingabe',
  allowOnce: 'Einmal erlauben',
  decline: 'Ablehnen',
  moreOptions: 'Weitere Möglichkeiten',
  alwaysHere: 'Hier immer erlauben',
  alwaysInThread: 'In dieser Unterhaltung immer',
  nextQuestion: 'Kommt nach der Frage darüber',
  connect: '{name} verbinden',
  connectNeeded: 'Der Agent benötigt Ihr Konto bei {name}',
  connectHint: 'Verbinden Sie es in einem neuen Tab. Kommen Sie dann hierher zurück, und fahren Sie fort.',
  connectContinue: 'Fortfahren',
  connectMessage: 'Ich habe {name} verbunden.',
  connected: '{name} ist verbunden. Sie können diesen Tab schließen und in der Unterhaltung fortfahren.',
  covered: 'Die Seite verdeckt diese Frage. Schließen Sie, was darüber liegt, damit Sie sehen, was Sie erlauben.',
  withdrawn: '{client} wartet nicht mehr auf „{name}“: {reason}. Es wurde nichts getan.',
  needsValue: 'Geben Sie einen Wert ein.',
  needsNumber: 'Geben Sie eine Zahl ein.',
  needsInteger: 'Geben Sie eine ganze Zahl ein.',
  needsAtLeast: 'Geben Sie {limit} oder mehr ein.',
  needsAtMost: 'Geben Sie {limit} oder weniger ein.',
  needsLonger: 'Geben Sie mindestens {limit} Zeichen ein.',
  needsShorter: 'Geben Sie höchstens {limit} Zeichen ein.',
  needsJson: 'Geben Sie gültiges JSON ein.',
  yes: 'Ja',
  no: 'Nein',
  notSet: 'Nicht gesetzt',

  announceQuestion: 'Wartet auf Ihre Zustimmung: {name}.',
  announceDone: 'Der Agent hat geantwortet.',
  announceFailed: 'Der Agent ist nicht fertig geworden: {reason}',
  announceWorking: 'Der Agent arbeitet.',
}

const catalogues: Record<string, Record<StringKey, string>> = { en: english, de: german }

/** Texts of questions. The page can't replace them, because it could swap the meaning of the buttons. */
const firstOfQuestions = Object.keys(english).indexOf('question')
const ownedByFrame = new Set(Object.keys(english).slice(firstOfQuestions))
const longestOwnText = 500

/** For docs/widget-texts.md. */
export const listTexts = (): { key: string; text: string; isReplaceable: boolean }[] =>
  Object.entries(english).map(([key, text]) => ({ key, text, isReplaceable: !ownedByFrame.has(key) }))

/** The panel's texts in one language, with its plural forms, numbers and dates. */
export interface Texts {
  language: string
  isRightToLeft: boolean
  say(key: StringKey, values?: Values): string
  count(key: PluralKey, count: number): string
  number(value: number): string
  dateTime(at: Date): string
  time(at: Date): string
  duration(ms: number): string
}

/** `own` are the page's texts, which replace those of the language by key. An unsupported language is English. */
export function createTexts(language: string, own: Record<string, unknown> = {}): Texts {
  const wanted = findLocale(language)
  const known = catalogues[wanted?.language ?? '']
  const replaced = ownTexts(own)
  const locale = wanted && (known || replaced.size > 0) ? wanted.toString() : 'en'
  const catalogue: Record<string, string> = known ?? english
  const plurals = new Intl.PluralRules(locale)
  const numbers = new Intl.NumberFormat(locale)
  const find = (key: string) => replaced.get(key) ?? catalogue[key]
  const say = (key: StringKey, values: Values = {}) => fill(find(key) ?? key, values, numbers)
  return {
    language: locale,
    isRightToLeft: wanted !== undefined && rightToLeft.has(wanted.maximize().script ?? ''),
    say,
    count(key, count) {
      const text = find(`${key}_${plurals.select(count)}`) ?? find(`${key}_other`) ?? key
      return fill(text, { count }, numbers)
    },
    number: (value) => numbers.format(value),
    dateTime: (at) => at.toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' }),
    time: (at) =>
      at.toLocaleString(locale, isToday(at) ? { timeStyle: 'short' } : { dateStyle: 'medium', timeStyle: 'short' }),
    duration(ms) {
      const digits = ms < 10_000 ? 1 : 0
      const seconds = Math.max(ms / 1000, 0.1).toLocaleString(locale, {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      })
      return say('seconds', { count: seconds })
    },
  }
}

const rightToLeft = new Set(['Arab', 'Hebr', 'Thaa', 'Syrc', 'Nkoo', 'Adlm', 'Rohg', 'Mand', 'Samr'])

function findLocale(language: string): Intl.Locale | undefined {
  try {
    return new Intl.Locale(language)
  } catch {
    return undefined
  }
}

const ownTexts = (own: Record<string, unknown>) =>
  new Map(
    Object.entries(own).flatMap(([key, text]) =>
      isReplaceable(key) && typeof text === 'string' ? [[key, plainText(text, longestOwnText)] as const] : [],
    ),
  )

/** Languages may have more plural forms than English. */
const isReplaceable = (key: string) => {
  const base = key.replace(/_(zero|one|two|few|many|other)$/, '_other')
  return base in english && !ownedByFrame.has(base)
}

const fill = (text: string, values: Values, numbers: Intl.NumberFormat) =>
  text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name]
    return value === undefined ? whole : typeof value === 'number' ? numbers.format(value) : value
  })

const isToday = (at: Date) => at.toDateString() === new Date().toDateString()
