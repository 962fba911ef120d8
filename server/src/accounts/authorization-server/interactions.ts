import { type Context, Hono } from 'hono'
import type { Client, InteractionResults, Provider } from 'oidc-provider'
import type { Caller, SignIn } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { NodeEnv } from '../../kernel/http/browser-session.ts'
import { limitForm, ownPagesOnly, readForm } from '../../kernel/http/forms.ts'
import { page, pageHeaders, scriptedPageHeaders } from '../../kernel/http/pages.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { cleanName, nameProblem, tidyName } from '../../kernel/lib/names.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import * as contract from '../../organizations/organizations/contract.ts'
import { decideInvitation } from '../../organizations/organizations/invitation-pages.ts'
import { listMyInvitations } from '../../organizations/organizations/invitations.ts'
import { createOrganization, listOrganizations } from '../../organizations/organizations/organizations.ts'
import { keepClient, signInOfSession } from '../access/records.ts'
import { organizationSignInPath } from '../organization-sign-in/pages.ts'
import { findOrganizationByEmail, hasWaysIn } from '../organization-sign-in/ways-in.ts'
import { passkeyScript, passkeySignIn } from '../passkeys/passkey-pages.ts'
import { describeDuration, describeWrongCode } from '../sign-in/code-form.ts'
import {
  type PasswordOutcome,
  signInAsDemoUser,
  signInMethods,
  signInNewUser,
  signInWithCode,
  signInWithPasskey,
  signInWithPassword,
  startExternalSignIn,
  takeHandoff,
} from '../sign-in/sign-in.ts'
import type { User } from '../users/users.ts'
import { longestClientName } from './clients/new-clients.ts'
import { formTarget } from './clients/redirect-uris.ts'
import { findSignedInUser, readConsent, readResources, saveConsent, saveGrant } from './grants.ts'
import {
  type ClientView,
  codePage,
  consentPage,
  nextStepPage,
  organizationPage,
  organizationSignInPage,
  type PageContext,
  signInPage,
  style,
} from './interaction-pages.ts'
import { errors } from './library.ts'

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>

/** An authorization request of a client, and the browser that it came with. */
interface Visit {
  c: Context<NodeEnv>
  provider: Provider
  interaction: Interaction
  path: string
  client: Client
  view: ClientView
}

type SignedIn = Caller['user'] & { signIn: SignIn }

/** Ties a form to the visit that it was issued for. */
const formToken = oneTime<string>('oauth:form', 60 * 60, 20_000)

/** A user whose password was right, in one visit. */
const pendingCode = oneTime<{ user: User; uid: string }>('oauth:second-factor', 10 * 60)

/** The reason why a form is shown again. */
interface Problem {
  text: string
  status: 400 | 429 | 503
  retryAfterSeconds?: number
}

/** Pages for sign in → choose an organization → consent. The library enforces the order. */
export function serveInteractions(service: Service, currentOidcServer: () => Promise<Provider>): Hono<NodeEnv> {
  const app = new Hono<NodeEnv>()
  const { publicUrl } = service.config

  async function openVisit(c: Context<NodeEnv>): Promise<Visit | undefined> {
    c.set('operation' as never, 'oauth interaction' as never)
    const provider = await currentOidcServer()
    // The interaction is identified by a signed cookie, so a link can't lead a user into another user's interaction.
    const interaction = await provider.interactionDetails(c.env.incoming, c.env.outgoing).catch((error) => {
      if (error instanceof errors.SessionNotFound) return undefined
      throw error
    })
    if (interaction?.uid !== c.req.param('uid')) return undefined
    const client = await provider.Client.find(String(interaction?.params.client_id))
    if (!interaction || !client) return undefined
    const view = { name: readName(client), redirectUri: String(interaction.params.redirect_uri) }
    return { c, provider, interaction, client, view, path: `/oauth/interaction/${interaction.uid}` }
  }

  async function show(
    { c, interaction, path, view }: Visit,
    title: string,
    html: (context: PageContext) => string,
    problem?: Problem,
    script?: string,
  ): Promise<Response> {
    const token = await formToken.issue(service.kv, interaction.uid)
    const body = page(title, html({ path, token, problem: problem?.text }), { style, ...(script && { script }) })
    const headers = script ? scriptedPageHeaders : pageHeaders
    return c.body(body, problem?.status ?? 200, {
      ...headers,
      ...(problem?.retryAfterSeconds && { 'retry-after': String(problem.retryAfterSeconds) }),
      // Without a referrer, browsers don't send the origin that `ownPagesOnly` checks.
      'referrer-policy': 'same-origin',
      'content-security-policy': headers['content-security-policy'].replace(
        "form-action 'self'",
        `form-action 'self' ${formTarget(view.redirectUri)}`,
      ),
    })
  }

  async function finish({ c, provider }: Visit, result: InteractionResults, options = {}): Promise<Response> {
    return c.redirect(await provider.interactionResult(c.env.incoming, c.env.outgoing, result, options), 303)
  }

  async function showSignIn(visit: Visit, problem?: Problem, email?: string): Promise<Response> {
    const methods = signInMethods(service)
    const hasWays = await hasWaysIn(service)
    const asks = wantsAnotherAccount(visit.c)
    const known = email ?? String(visit.interaction.params.login_hint ?? '')
    const way = visit.c.req.query('way')
    if (hasWays && (way === 'organization' || (methods.external && way !== 'external' && !problem)))
      return showOrganizationSignIn(visit, { email: known, asks })
    if (methods.external && !problem) {
      return visit.c.redirect(await startExternalSignIn(service, visit.path, { asks }), 303)
    }
    const html = (context: PageContext) =>
      signInPage(context, {
        client: visit.view,
        methods: { ...methods, organizations: hasWays },
        email: known,
        asks,
        passkey: passkeySignIn(service, context.token),
      })
    return show(visit, 'Sign in', html, problem, passkeyScript)
  }

  const showOrganizationSignIn = (visit: Visit, view: { email: string; asks: boolean }, problem?: Problem) => {
    const { external } = signInMethods(service)
    return show(
      visit,
      'Sign in',
      (context) => organizationSignInPage(context, visit.view, { ...view, external }),
      problem,
    )
  }

  /** A link and not a redirect: the page's policy would stop a form that leads to a provider. */
  async function showNextStep(visit: Visit, path: string): Promise<Response> {
    const response = await show(visit, 'Sign in', () => nextStepPage(path))
    response.headers.set('refresh', `0; url=${path}`)
    return response
  }

  const showCodeForm = (visit: Visit, pending: string, problem?: Problem) =>
    show(visit, 'Second factor', (context) => codePage(context, pending), problem)

  async function finishSignIn(visit: Visit, user: User): Promise<Response> {
    const { c, interaction, provider } = visit
    // Replaces another user's session, for example from another tab. Ended sessions can't be resumed.
    const session = await provider.Session.get(provider.createContext(c.env.incoming, c.env.outgoing))
    const isAnother = session.accountId !== user.id || signInOfSession(session).generation !== user.session_generation
    if (session.accountId && isAnother) await session.destroy()
    Object.assign(interaction, { session: undefined })
    await interaction.persist()
    return finish(visit, {
      login: { accountId: user.id, ts: Math.floor(service.clock() / 1000), amr: [String(user.session_generation)] },
    })
  }

  async function showConsent(visit: Visit, user: SignedIn, problem?: Problem): Promise<Response> {
    const { c, client, interaction, view } = visit
    const organizations = await listOrganizations(service, { user })
    const chosen = c.req.query('organization')
    // A user who has chosen an organization has already seen the invitations and left them open.
    const invitations = chosen ? [] : await listMyInvitations(service, { user })
    const wanted = chosen ?? (await guessOrganization(visit, user, organizations))
    const organization = organizations.find(({ id }) => id === wanted)
    if (invitations.length > 0 || (!organization && wanted !== 'none')) {
      const html = (context: PageContext) => organizationPage(context, view, user.email, organizations, invitations)
      return show(visit, 'Choose an organization', html, problem)
    }
    const asked = readResources(interaction.params.resource)
    const known = Object.entries(resources(publicUrl)) as ['api' | 'mcp', string][]
    return show(visit, 'Allow access', (context) =>
      consentPage(context, {
        client: view,
        provenHost: client.clientIdMetadataDocument ? new URL(client.clientId).host : undefined,
        email: user.email,
        organization,
        resources: known
          .filter(([, resource]) => asked.includes(publicUrl) || asked.includes(resource))
          .map(([name]) => name),
      }),
    )
  }

  /** The only organization, or the one chosen last. A client that sends `prompt=consent` asks for a new choice. */
  async function guessOrganization(visit: Visit, user: SignedIn, organizations: { id: string }[]) {
    if (organizations.length === 1) return organizations[0]?.id
    if (String(visit.interaction.params.prompt ?? '').includes('consent')) return undefined
    const consent = await readConsent(service, whoAllows(user, visit.client))
    return consent && (consent.organization_id ?? 'none')
  }

  async function userOf({ interaction }: Visit): Promise<SignedIn | undefined> {
    const { prompt, session } = interaction
    if (prompt.name !== 'consent' || !session) return undefined
    const signIn = signInOfSession(session)
    const user = await findSignedInUser(service, session.accountId, signIn)
    return user && { ...user, signIn }
  }

  app.get('/:uid', async (c) => {
    const visit = await openVisit(c)
    if (!visit) return showEnded(c)
    const handoff = c.req.query('handoff')
    if (handoff) {
      const user = await takeHandoff(service, handoff, c.req.path)
      const ended: Problem = { text: 'This sign-in link was already used or has expired.', status: 400 }
      return user ? finishSignIn(visit, user) : showSignIn(visit, ended)
    }
    if (wantsAnotherAccount(c)) return showSignIn(visit)
    const user = await userOf(visit)
    if (user) return showConsent(visit, user)
    const newUser = await signInNewUser(service, c)
    return newUser ? finishSignIn(visit, newUser) : showSignIn(visit)
  })

  /** Accepts each form once, and only from our own pages. */
  const onPost = (
    step: string,
    handle: (visit: Visit, form: Record<string, string>) => Promise<Response | undefined>,
  ) => {
    app.post(`/:uid/${step}`, limitForm, ownPagesOnly(publicUrl), async (c) => {
      const visit = await openVisit(c)
      const form = await readForm(c)
      if (!visit || (await formToken.take(service.kv, form.token ?? '')) !== visit.interaction.uid) return showEnded(c)
      return (await handle(visit, form)) ?? showEnded(c)
    })
  }

  onPost('sign-in', async (visit, { demo, email = '', password = '' }) => {
    const address = service.clientAddress(visit.c.env.incoming)
    if (demo) {
      const user = await signInAsDemoUser(service, demo, address)
      return user ? finishSignIn(visit, user) : showSignIn(visit)
    }
    const outcome = await signInWithPassword(service, { email, password, address })
    if (outcome.is === 'signed in') return finishSignIn(visit, outcome.user)
    if (outcome.is !== 'second factor') return showSignIn(visit, describeOutcome(outcome), email)
    const { uid } = visit.interaction
    return showCodeForm(visit, await pendingCode.issue(service.kv, { user: outcome.user, uid }))
  })

  onPost('passkey', async (visit, { token = '', response = '' }) => {
    const address = service.clientAddress(visit.c.env.incoming)
    const user = await signInWithPasskey(service, { challenge: token, response, address })
    return user ? finishSignIn(visit, user) : showSignIn(visit, refusedPasskey)
  })

  onPost('way', async (visit, { email = '', account }) => {
    const asks = account === 'other'
    const organizationId = await findOrganizationByEmail(service, email.trim())
    if (organizationId) return showNextStep(visit, organizationSignInPath(organizationId, visit.path, { asks }))
    if (signInMethods(service).external)
      return showNextStep(visit, await startExternalSignIn(service, visit.path, { asks }))
    const text =
      'No organization has set up single sign-on for this address. Check its spelling, or sign in another way.'
    return showOrganizationSignIn(visit, { email: email.slice(0, 254), asks }, { text, status: 400 })
  })

  onPost('second-factor', async (visit, { pending = '', code = '' }) => {
    const known = await pendingCode.read(service.kv, pending)
    if (known?.uid !== visit.interaction.uid) return showSignIn(visit, expiredCode)
    const address = service.clientAddress(visit.c.env.incoming)
    const outcome = await signInWithCode(service, { user: known.user, code, address })
    if (outcome.is !== 'right') return showCodeForm(visit, pending, describeWrongCode(outcome))
    return (await pendingCode.take(service.kv, pending)) ? finishSignIn(visit, known.user) : undefined
  })

  onPost('organization', async (visit, { name }) => {
    const user = await userOf(visit)
    if (!user) return undefined
    const input = contract.createOrganization.body.safeParse({ name })
    if (!input.success) {
      const problem = nameProblem(tidyName(name ?? ''))
      const text = `Enter a name of up to 100 characters. ${problem ?? ''}`.trim()
      return showConsent(visit, user, { text, status: 400 })
    }
    try {
      const { id } = await createOrganization(service, { user }, input.data)
      return visit.c.redirect(`${visit.path}?organization=${id}`, 303)
    } catch (error) {
      const reason = error instanceof Failure ? error.envelope.data?.reason : undefined
      if (typeof reason !== 'string') throw error
      return showConsent(visit, user, { text: reason, status: 400 })
    }
  })

  onPost('invitation', async (visit, form) => {
    const user = await userOf(visit)
    if (!user) return undefined
    await decideInvitation(service, user, form)
    return visit.c.redirect(visit.path, 303)
  })

  onPost('consent', async (visit, { decision, organization }) => {
    const { interaction, client, provider } = visit
    if (decision !== 'allow') {
      const refusal = { error: 'access_denied', error_description: 'The user denied access' }
      return finish(visit, refusal, { mergeWithLastSubmission: false })
    }
    const organizationId = organization === 'none' ? undefined : organization
    const user = await userOf(visit)
    if (!user) return undefined
    const memberships = await listOrganizations(service, { user })
    if (organizationId && !memberships.some(({ id }) => id === organizationId)) return undefined
    const who = whoAllows(user, client)
    const consent = { organization_id: organizationId, resources: readResources(interaction.params.resource) }
    if (organizationId) {
      const trail = { organizationId, actor: user.email, actorId: user.id }
      await service.database.asOrg(organizationId, (sql) =>
        recordAudit(sql, trail, 'client.allowed', client.clientId, { name: visit.view.name }),
      )
    }
    await saveConsent(service, who, consent)
    await keepClient(service.kv, client.clientId)
    return finish(visit, { consent: { grantId: await saveGrant(provider, who, consent) } })
  })
  return app
}

const refusedPasskey: Problem = {
  text: 'This passkey wasn’t accepted. It may have been removed from your account. Try another, or use your password.',
  status: 400,
}

const expiredCode: Problem = {
  text: 'This took longer than ten minutes. Enter your password again.',
  status: 400,
}

function describeOutcome(outcome: Exclude<PasswordOutcome, { is: 'signed in' | 'second factor' }>): Problem {
  if (outcome.is === 'busy') {
    const text = 'Too many users are signing in right now. Try again in a few seconds.'
    return { text, status: 503, retryAfterSeconds: 5 }
  }
  const { is, waitSeconds } = outcome
  const wait = `${is === 'wrong' ? 'You can try again' : 'Try again'} in ${describeDuration(waitSeconds)}.`
  if (is === 'paused') {
    const text = `Too many failed sign-in attempts for this email address. ${wait}`
    return { text, status: 429, retryAfterSeconds: waitSeconds }
  }
  return { text: `The email address or password is incorrect.${waitSeconds > 0 ? ` ${wait}` : ''}`, status: 400 }
}

const whoAllows = ({ id, signIn }: SignedIn, { clientId }: Client) => ({ userId: id, clientId, signIn })

const wantsAnotherAccount = (c: Context) => c.req.query('account') === 'other'

/** Clients that registered before names were checked may have an invalid one. */
const readName = ({ clientName, clientId }: Client): string =>
  cleanName(clientName ?? '', longestClientName) || cleanName(clientId, longestClientName)

const showEnded = (c: Context) =>
  c.body(
    page(
      'Page expired',
      `<h1>This page is no longer valid</h1>
       <p>If you got here with the Back button, press Forward to return to where you were.</p>
       <p>If you already allowed or cancelled access, you’re done and can close this page. To sign in again, start from the app that you came from: a sign-in works once, within an hour, and in the browser that it was started in.</p>`,
    ),
    400,
    pageHeaders,
  )
