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
  toolStopped: 'Stopped',
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
  askOnPage: '{client} wants to use a tool on this page.',
  askInTab: '{client} wants to use a tool on another page of yours, {source}.',
  askAtConnector: '{client} wants to use the tool {tool} of the service {source} as you.',
  askBuiltIn: '{client} wants to use the built-in tool {tool}.',
  askAnywhere: '{client} wants to use the tool {tool}.',
  mayChangeHere: 'It may change something here.',
  mayChangeThere: 'It may change something there.',
  mayChange: 'It may change something.',
  askReason: 'Why you’re asked: {reason}',
  reasonAlwaysAsked: 'Your organization wants you to approve each call of this tool.',
  reasonEndsAccess: 'This ends the agent’s access to your account.',
  reasonInterrupted: 'This call was interrupted before, and may already have been carried out.',
  reasonElsewhere: 'This conversation contains text from {from}. Check what the agent sends to {to}.',
  andMore: '{from} and {more} more',
  reasonChoice:
    'This conversation contains text from {from}. Which tool the agent uses can tell {to} something about it.',
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
  alwaysWithoutInput: 'Always without input, in this conversation',
  alwaysOfOrigin: 'All {count} tools of {to} that only read, without input, in this conversation',
  nextQuestion: 'Comes next, after the question above',
  connect: 'Connect {name}',
  connectNeeded: 'The agent needs your account at {name}',
  connectHint: 'Connect it in a new tab. Then come back here, and continue.',
  connectContinue: 'Continue',
  connectMessage: 'I’ve connected {name}.',
  connected: '{name} is connected. You can close this tab, and continue in the conversation.',
  connectExpired:
    'Your account couldn’t be connected: the link has expired, was already used, or is another user’s. Ask the agent for a new one.',
  connectFailed: '{name} couldn’t be connected: {reason}',
  covered: 'The page covers this question. Close what’s on top of it, so that you can see what you allow.',
  confirmBrowser: 'Confirm this browser',
  confirmNeeded: 'First confirm once that this browser is yours, so that only you can allow this.',
  confirmUnavailable: 'You can’t allow this here: this site has no way to confirm that this browser is yours.',
  confirmHidden:
    'Conversations from other sites and browsers are shown once you’ve confirmed that this browser is yours.',
  conversationsHidden: 'Conversations from other sites and browsers aren’t shown here.',
  confirmOpened: 'Continue in the new window.',
  confirmBlocked: 'The window was blocked. Allow this site to open windows.',
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
/** A missing text is in English. Languages may have more plural forms than English. */
export type ViewTranslation = { [Key in StringKey | `${PluralKey}_${'zero' | 'two' | 'few' | 'many'}`]?: string }
type PluralKey = { [Key in StringKey]: Key extends `${infer Base}_other` ? Base : never }[StringKey]
export type Values = Record<string, string | number>

const catalogues: Record<string, Record<string, string>> = { en: english }

export function addCatalogue(language: string, texts: Record<string, string>): void {
  catalogues[language] = texts
}

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

/** Accepts anything, because the page's look can contain anything. */
export function findLocale(language: unknown): Intl.Locale | undefined {
  try {
    return new Intl.Locale(`${language}`)
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
