import { texts } from '../../lib/texts.ts'
import { t } from './texts.ts'

export type Vendor =
  | 'okta'
  | 'azure'
  | 'auth0'
  | 'google'
  | 'workos'
  | 'firebase'
  | 'onelogin'
  | 'logto'
  | 'custom_oidc'

interface Guide {
  /** What to click at the vendor. Names of its menus and fields are between asterisks. */
  steps: string[]
  /** What is special about this vendor. */
  note?: string
  domain?: string
  audience: string
}

export const guides = texts<Record<Vendor, Guide>>('identityProviderVendors', {
  okta: {
    steps: [
      'In the Admin Console, open *Applications → Applications* and the application that your users sign in to, or choose *Create App Integration → OIDC - OpenID Connect*.',
      'On the *General* tab, copy the *Client ID*.',
      'If the application’s authorize URL contains /oauth2/default or another server’s ID, add that part to the domain: acme.okta.com/oauth2/default.',
    ],
    note: 'Enter the domain without -admin: acme.okta.com, not acme-admin.okta.com. A custom domain works if your tokens’ issuer uses it.',
    domain: 'Okta domain',
    audience: 'Client ID',
  },
  azure: {
    steps: [
      'In the Microsoft Entra admin center, open *App registrations* and your application, or *New registration* with *Accounts in this organizational directory only*.',
      'On the *Overview* page, copy the *Application (client) ID* and the *Directory (tenant) ID*.',
      'Under *Token configuration*, choose *Add optional claim → ID* and add email and xms_edov. If xms_edov isn’t listed, add { "name": "xms_edov" } to optionalClaims.idToken in the *Manifest*.',
      'Sign users in through the v2.0 endpoint, which MSAL does by default.',
    ],
    note: 'xms_edov tells Inlay that the email address is verified, which users need for their own assistants.',
    domain: 'Directory (tenant) ID',
    audience: 'Application (client) ID',
  },
  auth0: {
    steps: [
      'In the dashboard, open *Applications → Applications* and your application, or create a *Single Page* or *Regular Web Application*.',
      'On the *Settings* tab, copy the *Domain* and the *Client ID*.',
    ],
    note: 'If your application signs users in on a custom domain, enter that domain.',
    domain: 'Domain',
    audience: 'Client ID',
  },
  google: {
    steps: [
      'In the Google Cloud console, open *APIs & Services → Credentials* and choose *Create credentials → OAuth client ID → Web application*.',
      'Add your application’s origin and redirect URI.',
      'Copy the *Client ID*.',
    ],
    note: 'All Google accounts have the same issuer. Enter your Workspace domain to admit only its users.',
    domain: 'Workspace domain',
    audience: 'Client ID',
  },
  workos: {
    steps: [
      'In the dashboard, open *Connect → Applications*, create an OAuth application or open yours, and copy its *Client ID*.',
      'Open *Domains* and copy the AuthKit domain, such as acme.authkit.app.',
    ],
    note: 'If your tokens come from the User Management API, enter the client ID as the domain, and the token’s aud as the client ID.',
    domain: 'AuthKit domain',
    audience: 'Client ID',
  },
  firebase: {
    steps: [
      'In the Firebase console, open *Project settings → General* and copy the *Project ID*.',
      'In your page, get the ID token with getIdToken(user) from firebase/auth.',
    ],
    note: 'The audience of a Firebase ID token is the project ID, so you can leave the client ID empty.',
    domain: 'Project ID',
    audience: 'Client ID',
  },
  onelogin: {
    steps: [
      'In the admin portal, open *Applications → Applications → Add App*, search for *OpenId Connect (OIDC)* and save it.',
      'On the *Configuration* tab, add your application’s redirect URI.',
      'On the *SSO* tab, copy the *Client ID*.',
    ],
    domain: 'Subdomain',
    audience: 'Client ID',
  },
  logto: {
    steps: [
      'In the console, open *Applications* and your application, or create one.',
      'Copy the *App ID*, and the host of the *Logto endpoint*.',
    ],
    note: 'For a self-hosted Logto, or a custom domain, enter that host.',
    domain: 'Host of the Logto endpoint',
    audience: 'App ID',
  },
  custom_oidc: {
    steps: [
      'Register your application at the provider as an OpenID Connect client, and copy its client ID.',
      'Open {issuer}/.well-known/openid-configuration and copy *issuer* exactly as it’s written, with or without a trailing slash.',
    ],
    note: 'For Keycloak, Ping, Cognito, Zitadel, Authentik and every other OpenID provider. Tokens must be signed with RS, PS or ES 256 to 512, or EdDSA.',
    audience: 'Client ID',
  },
})

interface VendorFacts {
  name: string
  console?: string
  domainExample?: string
  isDomainOptional?: true
  audienceExample: string
  isAudienceOptional?: true
  /** The issuer that tokens must have, for what was entered. */
  issuer: (domain: string) => string
}

const facts: Record<Vendor, VendorFacts> = {
  okta: {
    name: 'Okta',
    console: 'https://login.okta.com',
    domainExample: 'acme.okta.com',
    audienceExample: '0oa1b2c3d4EXAMPLE',
    issuer: (domain) => `https://${domain}`,
  },
  azure: {
    name: 'Entra ID',
    console: 'https://entra.microsoft.com',
    domainExample: '72f988bf-86f1-41af-91ab-2d7cd011db47',
    audienceExample: '6731de76-14a6-49ae-97bc-6eba6914391e',
    issuer: (domain) => `https://login.microsoftonline.com/${domain.toLowerCase()}/v2.0`,
  },
  auth0: {
    name: 'Auth0',
    console: 'https://manage.auth0.com',
    domainExample: 'acme.us.auth0.com',
    audienceExample: 'k3yPQeXAMPLEclientId',
    issuer: (domain) => `https://${domain}/`,
  },
  google: {
    name: 'Google',
    console: 'https://console.cloud.google.com/apis/credentials',
    domainExample: 'acme.com',
    isDomainOptional: true,
    audienceExample: '1234567890-abc123.apps.googleusercontent.com',
    issuer: () => 'https://accounts.google.com',
  },
  workos: {
    name: 'WorkOS',
    console: 'https://dashboard.workos.com',
    domainExample: 'acme.authkit.app',
    audienceExample: 'client_01EXAMPLE',
    issuer: (domain) =>
      /^client_\w+$/.test(domain) ? `https://api.workos.com/user_management/${domain}` : `https://${domain}`,
  },
  firebase: {
    name: 'Firebase',
    console: 'https://console.firebase.google.com',
    domainExample: 'acme-prod',
    audienceExample: 'acme-prod',
    isAudienceOptional: true,
    issuer: (domain) => `https://securetoken.google.com/${domain}`,
  },
  onelogin: {
    name: 'OneLogin',
    console: 'https://app.onelogin.com/login',
    domainExample: 'acme.onelogin.com',
    audienceExample: '0a1b2c3d-EXAMPLE',
    issuer: (domain) => `https://${domain.includes('.') ? domain : `${domain}.onelogin.com`}/oidc/2`,
  },
  logto: {
    name: 'Logto',
    console: 'https://cloud.logto.io',
    domainExample: 'acme.logto.app',
    audienceExample: 'app-id-example',
    issuer: (domain) => `https://${domain}/oidc`,
  },
  custom_oidc: { name: t.anyProvider, audienceExample: 'my-web-app', issuer: () => '' },
}

export type VendorInfo = VendorFacts & Guide & { id: Vendor }

export const vendors: VendorInfo[] = (Object.keys(facts) as Vendor[]).map((id) => ({
  id,
  ...facts[id],
  ...guides[id],
}))

export const findVendor = (id: string | null | undefined): VendorInfo | undefined =>
  vendors.find((vendor) => vendor.id === id)
