/**
 * Whether the issuer has verified the email address in its claims. Entra ID has no `email_verified`; its optional claim
 * `xms_edov` (email domain owner verified) is a boolean, a number or a string. Other issuers may let users set a claim
 * of that name, so it's ignored there.
 */
export function isEmailVerified(issuer: string, { email_verified, xms_edov }: Record<string, unknown>): boolean {
  if (email_verified !== undefined) return email_verified === true
  return entraIssuer.test(issuer) && [true, 1, '1', 'true'].some((value) => value === xms_edov)
}

const entraIssuer = /^https:\/\/login\.microsoftonline\.(com|us)\//
