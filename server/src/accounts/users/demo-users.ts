/** Whom the demo creates, and whose names the sign-in page offers during development. */
export const demoUsers = [
  { email: 'admin@demo.test', name: 'Demo Admin', text: 'admin of demo' },
  { email: 'member@demo.test', name: 'Demo Member', text: 'member of demo, admin of other' },
  { email: 'admin@other.test', name: 'Other Admin', text: 'admin of other' },
  { email: 'nobody@demo.test', name: 'Nobody', text: 'without an organization' },
] as const
