/**
 * Whether an issuer vouches for the address among its claims. Entra ID has no `email_verified`. Its optional claim `xms_edov`
 * (email domain owner verified) comes as a boolean, a number or a string. With other issuers, users might set a claim of
 * that name.
 */
export function isEmailVerified(issuer: string, { email_verified, xms_edov }: Record<string, unknown>): boolean {
  if (email_verified !== undefined) return email_verified === true
  return entraIssuer.test(issuer) && [true, 1, '1', 'true'].some((value) => value === xms_edov)
}

const entraIssuer = /^https:\/\/login\.microsoftonline\.(com|us)\//
