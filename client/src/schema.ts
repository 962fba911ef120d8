// Made from openapi.json by `npm run generate`.
export interface paths {
    "/users/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The signed-in person and their organizations
         * @description Needs a signed-in person.
         */
        get: operations["getCurrentUser"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End the token that makes this call, and the session that it comes from with all its tokens
         * @description Needs a signed-in person.
         */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organizations that the signed-in person belongs to
         * @description Needs a signed-in person.
         */
        get: operations["listOrganizations"];
        put?: never;
        /**
         * Create an organization; whoever creates it is its first admin
         * @description Needs a signed-in person.
         */
        post: operations["createOrganization"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/by-slug/{slug}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One of the signed-in person’s organizations, by slug
         * @description Needs a signed-in person.
         */
        get: operations["getOrganizationBySlug"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/current/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s members with profile and role
         * @description Needs a token that carries an organization.
         */
        get: operations["listMembers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/current/members/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove a member; their tokens stop working for the organization
         * @description The last admin cannot be removed: 409 with the code `LAST_ADMIN`. Needs the admin role in the token’s organization.
         */
        delete: operations["removeMember"];
        options?: never;
        head?: never;
        /**
         * Change a member’s role
         * @description The last admin cannot be demoted: 409 with the code `LAST_ADMIN`. Needs the admin role in the token’s organization.
         */
        patch: operations["updateMember"];
        trace?: never;
    };
    "/organizations/current/leave": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Leave the organization; your tokens for it stop working
         * @description The last admin can’t leave: 409 with the code `LAST_ADMIN`. Needs a token that carries an organization.
         */
        post: operations["leaveOrganization"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/current/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Invitations that nobody has accepted yet
         * @description Needs the admin role in the token’s organization.
         */
        get: operations["listInvitations"];
        put?: never;
        /**
         * Invite somebody by email
         * @description Nobody becomes a member unasked: the invited person accepts or declines at `url`, at their next sign-in, or with the API, signed in with that verified address. Inlay sends no email. An open invitation takes a seat of the plan. Needs the admin role in the token’s organization.
         */
        post: operations["createInvitation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/current/invitations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Withdraw an invitation
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["deleteInvitation"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/me/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Open invitations to your verified address, newest first
         * @description At most 100. Empty while your address isn’t verified. Needs a signed-in person.
         */
        get: operations["listMyInvitations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/me/invitations/{id}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Accept an invitation and become a member
         * @description Needs a signed-in person.
         */
        post: operations["acceptInvitation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/users/me/invitations/{id}/decline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Decline an invitation
         * @description Needs a signed-in person.
         */
        post: operations["declineInvitation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One of the signed-in person’s organizations, by id
         * @description Needs a signed-in person.
         */
        get: operations["getOrganization"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/publishable-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s keys, revoked ones included
         * @description Needs a token that carries an organization.
         */
        get: operations["listPublishableKeys"];
        put?: never;
        /**
         * Create a key for the widget
         * @description Each allowed origin is a site of the plan, and a wildcard is one site. Needs the admin role in the token’s organization.
         */
        post: operations["createPublishableKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/publishable-keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke a key for good; doing it twice changes nothing
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["revokePublishableKey"];
        options?: never;
        head?: never;
        /**
         * Rename a key or change where it may be used
         * @description Each allowed origin is a site of the plan, and a wildcard is one site. Needs the admin role in the token’s organization.
         */
        patch: operations["updatePublishableKey"];
        trace?: never;
    };
    "/publishable-keys/{id}/reveal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Show a key again; who asked is kept in the audit trail
         * @description Needs the admin role in the token’s organization.
         */
        post: operations["revealPublishableKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/pk-ticket": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a publishable key, and an ID token, for a ticket to the runtime
         * @description Called by the widget. The ticket can be used once, for a minute. Open to anybody.
         */
        post: operations["exchangeTicket"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/identity-providers/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whose ID tokens the widget trusts, and where it may be embedded
         * @description Needs a token that carries an organization.
         */
        get: operations["getIdentityProviderConfig"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change some of the settings; null clears one
         * @description Needs the admin role in the token’s organization.
         */
        patch: operations["updateIdentityProviderConfig"];
        trace?: never;
    };
    "/identity-providers/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fetch a provider’s discovery document and say what is wrong, without saving anything
         * @description Needs the admin role in the token’s organization.
         */
        post: operations["testIdentityProvider"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organizations/current/allowed-domains": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The origins that may embed the widget
         * @description Needs a token that carries an organization.
         */
        get: operations["getAllowedDomains"];
        /**
         * Replace the origins that may embed the widget
         * @description Needs the admin role in the token’s organization.
         */
        put: operations["setAllowedDomains"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sites": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The origins that an administrator allowed, on a key or in the organization’s domains
         * @description A site whose origin is no longer allowed stays listed while usage is recorded for it. Only allowed ones count towards the plan. Needs a token that carries an organization.
         */
        get: operations["listSites"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sites/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete a site that is no longer allowed; its usage moves to “no site”
         * @description While a key or the allowed domains still name the origin, the response is a 409 with the code `SITE_STILL_ALLOWED` that says where to remove it. Needs the admin role in the token’s organization.
         */
        delete: operations["deleteSite"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/end-users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The people who used the widget, in the order they first came
         * @description Needs a token that carries an organization.
         */
        get: operations["listEndUsers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/end-users/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One of them
         * @description Needs a token that carries an organization.
         */
        get: operations["getEndUser"];
        put?: never;
        post?: never;
        /**
         * Erase a person and what hangs on them; the organization’s usage totals stay
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["eraseEndUser"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/hub/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Your own open pages that offer tools
         * @description Needs a token that carries an organization.
         */
        get: operations["listHubSources"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/hub/tools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The tools that your own open pages offer
         * @description A name that several pages offer in the same way is listed once. Needs a token that carries an organization.
         */
        get: operations["listHubTools"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/connectors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s remote tool servers
         * @description Needs a token that carries an organization.
         */
        get: operations["listConnectors"];
        put?: never;
        /**
         * Connect a remote tool server
         * @description The tools of an `id_jag` connector appear in the hub for members whose identity a page with the widget has brought. The client at the identity provider, if it is another one than at the tool server, has both `idp_client_id` and `idp_client_secret`. An `oauth` connector is for servers of third parties: members allow Inlay to use it on the page `/connect/{id}`, and a client is needed only where Inlay cannot register itself. Needs the admin role in the token’s organization.
         */
        post: operations["createConnector"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/connectors/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One remote tool server
         * @description Needs a token that carries an organization.
         */
        get: operations["getConnector"];
        put?: never;
        post?: never;
        /**
         * Forget a connector; tokens that were issued for it are not used again
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["deleteConnector"];
        options?: never;
        head?: never;
        /**
         * Change some of a connector’s settings
         * @description The address and the clients stay: secrets are only ever sent where they were entered for. For others, make another connector. Needs the admin role in the token’s organization.
         */
        patch: operations["updateConnector"];
        trace?: never;
    };
    "/connectors/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Go through the whole flow as yourself, step by step
         * @description Uses the identity that you last brought to a page with the widget, and no token that is remembered. Nothing is called but `tools/list`. Needs the admin role in the token’s organization.
         */
        post: operations["testConnector"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organization-skills/list": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The built-in skills, then the organization’s active ones by name
         * @description Needs a token that carries an organization.
         */
        post: operations["listSkills"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organization-skills": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a skill from a SKILL.md
         * @description Needs a token that carries an organization.
         */
        post: operations["createSkill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organization-skills/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A skill with its body; archived ones too, and built-in ones by their location
         * @description Needs a token that carries an organization.
         */
        get: operations["getSkill"];
        put?: never;
        post?: never;
        /**
         * Archive a skill; its name is free again, and doing it twice changes nothing
         * @description Needs a token that carries an organization.
         */
        delete: operations["archiveSkill"];
        options?: never;
        head?: never;
        /**
         * Edit a skill’s text in place, or change where it is offered
         * @description Operations work on the whole SKILL.md, each on what the ones before it made; one that does not fit refuses them all. Needs a token that carries an organization.
         */
        patch: operations["patchSkill"];
        trace?: never;
    };
    "/organization-skills/{id}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Every version of a skill, the newest first
         * @description Needs a token that carries an organization.
         */
        get: operations["listSkillVersions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organization-skills/{id}/versions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A skill’s text and domains as they once were
         * @description Needs a token that carries an organization.
         */
        get: operations["getSkillVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/organization-skills/{id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make an old version the newest; an archived skill becomes active again
         * @description Needs a token that carries an organization.
         */
        post: operations["restoreSkill"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/diagnostics/refusals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who was turned away lately, by which check, and what would put it right
         * @description The last 200 different refusals; the same one again counts up. Needs the admin role in the token’s organization.
         */
        get: operations["listRefusals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/diagnostics/warnings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Settings that an administrator should change, for as long as they are so
         * @description A key without allowed origins, in an organization without allowed domains, works on any website. Its requests count for no site. Needs the admin role in the token’s organization.
         */
        get: operations["listWarnings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/governance/providers/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who decides on tool calls, and whether that works
         * @description Needs a token that carries an organization.
         */
        get: operations["getGovernanceProvider"];
        put?: never;
        post?: never;
        /**
         * Forget the provider and its API key; doing it twice changes nothing
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["clearGovernanceProvider"];
        options?: never;
        head?: never;
        /**
         * Set up the provider or change some of its settings
         * @description The first change creates a disabled `byo` provider. An `interceptor_url` on another host needs the `api_key` again. What was tested is forgotten when the connection changes. Needs the admin role in the token’s organization.
         */
        patch: operations["updateGovernanceProvider"];
        trace?: never;
    };
    "/governance/providers/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask the interceptor about a sample call and check its answer
         * @description What is left out comes from the saved configuration. The outcome is remembered only when exactly that was tested. Needs the admin role in the token’s organization.
         */
        post: operations["testGovernanceProvider"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/org-github-apps/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s own GitHub app, without its secrets
         * @description Needs the admin role in the token’s organization.
         */
        get: operations["getGithubApp"];
        put?: never;
        post?: never;
        /**
         * Forget the organization’s own GitHub app and go back to the platform’s
         * @description The app itself stays on GitHub, where its owner can delete it. Needs the admin role in the token’s organization.
         */
        delete: operations["removeGithubApp"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/org-github-apps/manifest-start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start the registration of the organization’s own GitHub app
         * @description A browser posts `manifest` as a form field of that name to `registration_url`, within an hour. An app that is configured already has to be removed first. Needs the admin role in the token’s organization.
         */
        post: operations["startGithubAppManifest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/daily": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Requests and tokens per UTC day; a day without traffic is a zero
         * @description At most ten years at once. Needs a token that carries an organization.
         */
        get: operations["getDailyUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s totals over a range of UTC days
         * @description Needs a token that carries an organization.
         */
        get: operations["getUsageStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/sites": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Totals per site over a range of UTC days, those with most tokens first
         * @description Needs a token that carries an organization.
         */
        get: operations["listSiteUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/end-users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Totals per end user over a range of UTC days, those with most tokens first
         * @description What anonymous visitors and erased end users spent is in the organization’s totals only. Needs a token that carries an organization.
         */
        get: operations["listEndUserUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/end-users/{end_user_id}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * An end user’s totals since they first came
         * @description Needs a token that carries an organization.
         */
        get: operations["getEndUserUsageStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/usage/end-users/{end_user_id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What an end user spent, answer by answer, newest first
         * @description Needs a token that carries an organization.
         */
        get: operations["listEndUserUsageHistory"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s conversations, those with the latest activity first
         * @description Needs a token that carries an organization.
         */
        get: operations["listThreads"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/end-users/{id}/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * An end user’s conversations, those with the latest activity first
         * @description Needs a token that carries an organization.
         */
        get: operations["listEndUserThreads"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/threads/analytics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How many conversations there are, and what they amount to; deleted ones are left out
         * @description Needs a token that carries an organization.
         */
        get: operations["getThreadAnalytics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/threads/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One conversation, whatever its status
         * @description Needs a token that carries an organization.
         */
        get: operations["getThread"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Rename, archive, delete or restore a conversation
         * @description Needs a token that carries an organization.
         */
        patch: operations["updateThread"];
        trace?: never;
    };
    "/plan-tiers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Every plan, the smallest first
         * @description Needs a token that carries an organization.
         */
        get: operations["listPlans"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/plan-tiers/current": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s plan, and how much of it is used
         * @description Needs a token that carries an organization.
         */
        get: operations["getPlanInfo"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/plan-tiers/check-feature": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Whether the organization’s plan allows a feature, or one more of what it limits
         * @description Needs a token that carries an organization.
         */
        post: operations["checkFeature"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s subscription, or null
         * @description Of several an active one, and of those the newest. Needs a token that carries an organization.
         */
        get: operations["getSubscription"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/subscriptions/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the organization has a subscription, and until when
         * @description Needs a token that carries an organization.
         */
        get: operations["getSubscriptionStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/subscriptions/checkout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Where to send somebody who wants to buy a plan
         * @description Needs a token that carries an organization.
         */
        get: operations["getCheckoutUrl"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/subscriptions/portal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Where to change or cancel the subscription
         * @description Needs the admin role in the token’s organization.
         */
        get: operations["getPortalUrl"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/subscriptions/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read the subscriptions again from the billing provider
         * @description Needs a token that carries an organization.
         */
        post: operations["syncSubscription"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/directories/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the organization has directories, and which one is active
         * @description Needs a token that carries an organization.
         */
        get: operations["getDirectoryStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/directories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The organization’s directories, the oldest first
         * @description Needs a token that carries an organization.
         */
        get: operations["listDirectories"];
        put?: never;
        /**
         * Connect a directory; the bearer token for its SCIM client is shown this once
         * @description A domain has one active directory: a second one is answered with 409. Needs the admin role in the token’s organization.
         */
        post: operations["createDirectory"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/directories/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * One directory
         * @description Needs a token that carries an organization.
         */
        get: operations["getDirectory"];
        put?: never;
        post?: never;
        /**
         * Disconnect a directory, with the people and groups that came from it
         * @description Needs the admin role in the token’s organization.
         */
        delete: operations["deleteDirectory"];
        options?: never;
        head?: never;
        /**
         * Change a directory, or switch it on or off
         * @description A domain has one active directory: a second one is answered with 409. Needs the admin role in the token’s organization.
         */
        patch: operations["updateDirectory"];
        trace?: never;
    };
    "/directories/{id}/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The people in a directory, in the order they came
         * @description Needs a token that carries an organization.
         */
        get: operations["listDirectoryUsers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/directories/{id}/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The groups in a directory, in the order they came
         * @description Needs a token that carries an organization.
         */
        get: operations["listDirectoryGroups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/audit-events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What was changed in the organization, the newest first, and whether the trail is intact
         * @description Needs a plan with audit logs. Needs the admin role in the token’s organization.
         */
        get: operations["listAuditEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AccessDeniedError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "FORBIDDEN";
            /** @constant */
            status: 403;
            /** @default Access denied */
            message: string;
            data: {
                /** @constant */
                code: "ACCESS_DENIED";
                reason: string;
            };
        };
        AuditEvent: {
            id: string;
            /** @description Its place in the organization’s trail, from 1 on without a gap */
            sequence: number;
            /** @description A person’s address, or which part of the service it was */
            actor: string;
            action: string;
            /** @description What was changed */
            target: string;
            data: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            created_at: string;
            /** @description An HMAC of the event and the hash before it, with a key that the database doesn’t have */
            hash: string;
        };
        AuditVerification: {
            /** @enum {string} */
            status: "intact" | "broken";
            /** @description How many events fit, from the first one on */
            length: number;
            /** @description The last event that fits: organization, sequence and hash. Keep it elsewhere: `npx inlay audit verify --from` proves later that the trail still contains it. */
            head: string;
            /** @description The sequence of the first event that does not fit */
            broken_at: number | null;
        };
        AuthRequiredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "UNAUTHORIZED";
            /** @constant */
            status: 401;
            /** @default Authentication required */
            message: string;
            data: {
                /** @constant */
                code: "AUTH_REQUIRED";
            };
        };
        BillingNotConfiguredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "BILLING_NOT_CONFIGURED";
            /** @constant */
            status: 404;
            /** @default This installation has no billing provider */
            message: string;
            data: {
                /** @constant */
                code: "BILLING_NOT_CONFIGURED";
            };
        };
        Connector: {
            id: string;
            /** @description Its tools are called `<name>.<tool>` */
            name: string;
            /**
             * @description `id_jag`: the organization’s identity provider vouches for people; `oauth`: each consents themselves
             * @enum {string}
             */
            kind: "id_jag" | "oauth";
            /** @description The MCP endpoint, and the resource ID */
            server_url: string;
            /** @description What the tool server, and the ID-JAG, know Inlay as; null: Inlay registers itself */
            client_id: string | null;
            client_secret_last4: string | null;
            /** @description What the identity provider knows Inlay as; null: the same */
            idp_client_id: string | null;
            idp_client_secret_last4: string | null;
            /** @description Empty: those that the server asks for */
            scopes: string[];
            /**
             * @description Whom an ID-JAG is for: the resource ID, or the issuer of the server’s tokens where that differs
             * @enum {string}
             */
            audience_mode: "resource" | "issuer";
            /** @enum {string} */
            status: "active" | "disabled";
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        ConnectorTest: {
            success: boolean;
            steps: {
                /** @enum {string} */
                step: "metadata" | "provider_exchange" | "redemption" | "tools_list" | "consent";
                /**
                 * @description `skipped`: one before it failed
                 * @enum {string}
                 */
                status: "ok" | "failed" | "skipped";
                /** @description What was found, or what is wrong */
                message: string;
            }[];
        };
        CreatedDirectory: {
            id: string;
            name: string;
            /** @enum {string} */
            type: "okta" | "azure" | "google" | "onelogin" | "generic";
            /** @description Of the addresses in the directory */
            domain: string;
            /** @enum {string} */
            status: "active" | "inactive";
            /** @description Where the directory sends its people and groups */
            scim_base_url: string;
            user_count: number;
            group_count: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            bearer_token: string;
        };
        CreatedPublishableKey: {
            id: string;
            name: string;
            /** @description The first 12 characters of the key */
            key_prefix: string;
            /** @description Where the key may be used; empty means the organization decides */
            allowed_origins: string[];
            /** @description Whether an admin can see the key again */
            can_reveal: boolean;
            revoked_at: string | null;
            last_used_at: string | null;
            /** Format: date-time */
            created_at: string;
            key: string;
        };
        DailyUsage: {
            /**
             * Format: date
             * @description A UTC day
             */
            date: string;
            total_requests: number;
            total_tokens: number;
        };
        Directory: {
            id: string;
            name: string;
            /** @enum {string} */
            type: "okta" | "azure" | "google" | "onelogin" | "generic";
            /** @description Of the addresses in the directory */
            domain: string;
            /** @enum {string} */
            status: "active" | "inactive";
            /** @description Where the directory sends its people and groups */
            scim_base_url: string;
            user_count: number;
            group_count: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        DirectoryGroup: {
            id: string;
            external_id: string | null;
            display_name: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        DirectoryStatus: {
            has_directory: boolean;
            has_active_directory: boolean;
            directory_count: number;
            /** @description Only when one exists; of several the oldest */
            active_directory?: {
                id: string;
                name: string;
                /** @enum {string} */
                type: "okta" | "azure" | "google" | "onelogin" | "generic";
                /** @description Of the addresses in the directory */
                domain: string;
                user_count: number;
                group_count: number;
            };
        };
        DirectoryUser: {
            id: string;
            external_id: string | null;
            user_name: string;
            email: string;
            name: string;
            active: boolean;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        DuplicateResourceError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "CONFLICT";
            /** @constant */
            status: 409;
            /** @default Resource already exists */
            message: string;
            data: {
                /** @constant */
                code: "DUPLICATE_RESOURCE";
                resource: string;
            };
        };
        EndUser: {
            id: string;
            organization_id: string;
            /** @description The subject at the organization’s identity provider */
            external_id: string;
            /** @description Empty when the provider says none */
            email: string;
            /** @description JSON text of the other claims about the person, 8 KiB at most: larger claims are left out */
            metadata: string;
            /** Format: date-time */
            last_activity_at: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        EndUserUsage: {
            end_user_id: string;
            external_id: string;
            email: string;
            total_requests: number;
            total_prompt_tokens: number;
            total_completion_tokens: number;
            total_tokens: number;
        };
        FullSkillVersion: {
            version: number;
            /** @description Address of the person who made it */
            created_by: string;
            /** Format: date-time */
            created_at: string;
            content: string;
            domains: string[];
        };
        GithubApp: {
            /** @description False: the platform’s own app serves, and everything else is null */
            configured: boolean;
            github_org_name: string | null;
            app_id: number | null;
            app_slug: string | null;
            app_url: string | null;
            /** @description The connected one, as `owner/name` */
            repository: string | null;
            created_at: string | null;
        };
        GithubAppManifestStart: {
            success: boolean;
            github_org_name: string;
            registration_url: string;
            /** @description JSON */
            manifest: string;
        };
        GithubAppRemoval: {
            success: boolean;
            repo_disconnected: boolean;
        };
        GovernanceConfig: {
            /** @enum {string} */
            provider_key: "vendor_default" | "byo";
            /** @description Empty when it was not given yet */
            interceptor_url: string;
            /** @description Empty when it was not given yet */
            interceptor_name: string;
            /** @description All that is ever shown of the API key; empty without one */
            api_key_last4: string;
            has_api_key: boolean;
            is_enabled: boolean;
            /**
             * @description Empty when this connection was not tested yet
             * @enum {string}
             */
            last_test_status: "success" | "notify" | "failure" | "";
            last_test_message: string;
            last_test_at: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        GovernanceProvider: {
            /**
             * @description `bypassed`: none is configured, or it is disabled
             * @enum {string}
             */
            effective_status: "active" | "bypassed" | "misconfigured";
            reason: string;
            config: components["schemas"]["GovernanceConfig"] | null;
        };
        GovernanceTest: {
            /** @enum {string} */
            provider_key: "vendor_default" | "byo";
            interceptor_url: string;
            interceptor_name: string;
            /** @enum {string} */
            status: "success" | "notify" | "failure";
            message: string;
            violations: {
                policy_id: string;
                /** @enum {string} */
                status: "success" | "notify" | "failure";
                details: string;
            }[];
            latency_ms: number;
        };
        HubSource: {
            sourceId: string;
            tabId: string;
            /** @description Of the page, as the ticket exchange saw it; empty outside of a browser */
            origin: string;
            title: string;
            url: string;
            toolCount: number;
            /** Format: date-time */
            connectedAt: string;
            /** Format: date-time */
            lastSeenAt: string;
        };
        HubTool: {
            name: string;
            /** @description From the page: untrusted text */
            title?: string;
            /** @description From the page: untrusted text */
            description: string;
            /** @description JSON Schema from the page */
            inputSchema: {
                [key: string]: unknown;
            };
            /** @description Hints from the page or the tool server about what the tool does. They are claims, not guarantees. */
            annotations?: {
                title?: string;
                /** @description The tool changes nothing */
                readOnlyHint?: boolean;
                /** @description The tool may delete or overwrite something */
                destructiveHint?: boolean;
                /** @description Calling the tool again with the same arguments changes nothing more */
                idempotentHint?: boolean;
                /** @description The tool reaches systems outside of the page or server */
                openWorldHint?: boolean;
                /** @description The tool has effects beyond the page, such as a purchase */
                consequentialHint?: boolean;
                /** @description The result may contain text that others wrote */
                untrustedContentHint?: boolean;
            };
            /** @description With `include_sources`: the open pages that offer it */
            sources?: components["schemas"]["HubSource"][];
        };
        IdentityProviderConfig: {
            idp_type: ("okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc") | null;
            allowed_audiences: string[] | null;
            idp_domain: string | null;
            idp_issuer: string | null;
            /** @description Origins allowed to embed the widget */
            allowed_domains: string[];
        };
        IdentityProviderTest: {
            success: boolean;
            issuer: string | null;
            jwks_uri: string | null;
            error: string | null;
        };
        IdpNotConfiguredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "IDP_NOT_CONFIGURED";
            /** @constant */
            status: 403;
            /** @default The organization trusts no identity provider yet */
            message: string;
            data: {
                /** @constant */
                code: "IDP_NOT_CONFIGURED";
            };
        };
        InternalError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "INTERNAL_SERVER_ERROR";
            /** @constant */
            status: 500;
            /** @default An Inlay error occurred */
            message: string;
            data: {
                /** @constant */
                code: "INTERNAL_ERROR";
            };
        };
        InvalidBodyError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "INVALID_BODY";
            /** @constant */
            status: 400;
            /** @default The request body is missing or malformed */
            message: string;
            data: {
                /** @constant */
                code: "INVALID_BODY";
                field: string;
                details: string;
            };
        };
        InvalidKeyError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "INVALID_KEY";
            /** @constant */
            status: 401;
            /** @default The publishable key is not valid */
            message: string;
            data: {
                /** @constant */
                code: "INVALID_KEY";
            };
        };
        InvalidTokenError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "INVALID_TOKEN";
            /** @constant */
            status: 401;
            /** @default The ID token could not be verified */
            message: string;
            data: {
                /** @constant */
                code: "INVALID_TOKEN";
            };
        };
        Invitation: {
            id: string;
            email: string;
            /** @enum {string} */
            role: "admin" | "member";
            /** @description Address of the admin who sent it */
            invited_by: string;
            /** @description Where the invited person accepts or declines it; send it to them */
            url: string;
            /** Format: date-time */
            created_at: string;
        };
        Member: {
            id: string;
            /** @enum {string} */
            role: "admin" | "member";
            /** Format: date-time */
            created_at: string;
            user: {
                id: string;
                email: string;
                name: string;
                /** @description Empty when the person has no picture */
                avatar_url: string;
                /** Format: date-time */
                created_at: string;
                /** Format: date-time */
                updated_at: string;
            };
        };
        MyInvitation: {
            id: string;
            organization: {
                id: string;
                name: string;
                /** @description Unique, unlike the name */
                slug: string;
            };
            /** @enum {string} */
            role: "admin" | "member";
            /** @description Address of the admin who sent it */
            invited_by: string;
            /** Format: date-time */
            created_at: string;
        };
        OrgContextRequiredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "ORG_CONTEXT_REQUIRED";
            /** @constant */
            status: 403;
            /** @default Organization context required */
            message: string;
            data: {
                /** @constant */
                code: "ORG_CONTEXT_REQUIRED";
            };
        };
        Organization: {
            id: string;
            name: string;
            slug: string;
            /** @description Empty when the organization has no picture */
            avatar_url: string;
            /** @enum {string} */
            role: "admin" | "member";
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        OriginNotAllowedError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "ORIGIN_NOT_ALLOWED";
            /** @constant */
            status: 403;
            /** @default This origin may not use the publishable key */
            message: string;
            data: {
                /** @constant */
                code: "ORIGIN_NOT_ALLOWED";
            };
        };
        PaymentRequiredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "PAYMENT_REQUIRED";
            /** @constant */
            status: 403;
            /** @default Subscription required */
            message: string;
            data: {
                /** @constant */
                code: "PAYMENT_REQUIRED";
            };
        };
        Plan: {
            id: string;
            name: string;
            description: string;
            features: components["schemas"]["PlanFeatures"];
            limits: components["schemas"]["PlanLimits"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        PlanFeatures: {
            sso: boolean;
            scim: boolean;
            audit_logs: boolean;
            custom_domains: boolean;
            /** @description Whether more of them are available */
            end_users: boolean;
            /** @description Whether more of them are available */
            seats: boolean;
        };
        PlanInfo: {
            plan: {
                id: string;
                name: string;
                description: string;
            };
            features?: components["schemas"]["PlanFeatures"];
            limits?: components["schemas"]["PlanLimits"];
            usage?: {
                seats_used: number;
                end_users_used: number;
            };
        };
        /** @description 0 means unlimited */
        PlanLimits: {
            seats: number;
            end_users: number;
            sites: number;
            skills: number;
        };
        Profile: {
            id: string;
            email: string;
            name: string;
            /** @description Empty when the person has no picture */
            avatar_url: string;
            organizations: {
                id: string;
                name: string;
                slug: string;
                /** @enum {string} */
                role: "admin" | "member";
            }[];
        };
        PublishableKey: {
            id: string;
            name: string;
            /** @description The first 12 characters of the key */
            key_prefix: string;
            /** @description Where the key may be used; empty means the organization decides */
            allowed_origins: string[];
            /** @description Whether an admin can see the key again */
            can_reveal: boolean;
            revoked_at: string | null;
            last_used_at: string | null;
            /** Format: date-time */
            created_at: string;
        };
        Refusal: {
            id: string;
            /** @enum {string} */
            surface: "ticket" | "id_token" | "scim" | "delegated_identity";
            /** @description The check that failed */
            step: string;
            /** @description What the caller was told */
            code: string;
            /** @description What is wrong, and what would put it right */
            message: string;
            expected: string | null;
            seen: string | null;
            origin: string | null;
            publishable_key_id: string | null;
            count: number;
            /** Format: date-time */
            first_at: string;
            /** Format: date-time */
            last_at: string;
        };
        ResourceNotFoundError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "NOT_FOUND";
            /** @constant */
            status: 404;
            /** @default Resource not found */
            message: string;
            data: {
                /** @constant */
                code: "RESOURCE_NOT_FOUND";
                resource: string;
                resourceId: string;
            };
        };
        SavedSkill: {
            id: string;
            /** @description As in the frontmatter, NFKC-normalized */
            name: string;
            /** @description When the skill should be used */
            description: string;
            /** @description Everything after the frontmatter, byte for byte */
            body: string;
            /** @description The whole SKILL.md */
            content: string;
            license: string | null;
            compatibility: string | null;
            /** @description Tool names with spaces between them */
            allowed_tools: string | null;
            /** @description Scalars are text, as they are written */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @description Hostnames where the skill is offered; `["*"]` means everywhere */
            domains: string[];
            /** @description Only of a built-in skill */
            location: string | null;
            /** @description 1 and upwards, one more with every change */
            version: number;
            /** @description An estimate of the body’s size in an agent’s context: its bytes divided by four */
            tokens: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            archived_at: string | null;
            /** @description Only when there are any: what the frontmatter holds that Inlay does not know and keeps */
            warnings?: string[];
        };
        Site: {
            id: string;
            /** @description As an administrator allowed it; a wildcard such as `https://*.example.com` is one site */
            origin: string;
            name: string;
            /** Format: date-time */
            created_at: string;
            /** @description Null until the widget is used there */
            last_seen_at: string | null;
        };
        SiteUsage: {
            /** @description Null for what happened on no site */
            site_id: string | null;
            origin: string | null;
            total_requests: number;
            total_prompt_tokens: number;
            total_completion_tokens: number;
            total_tokens: number;
        };
        Skill: {
            id: string;
            /** @description As in the frontmatter, NFKC-normalized */
            name: string;
            /** @description When the skill should be used */
            description: string;
            /** @description Everything after the frontmatter, byte for byte */
            body: string;
            /** @description The whole SKILL.md */
            content: string;
            license: string | null;
            compatibility: string | null;
            /** @description Tool names with spaces between them */
            allowed_tools: string | null;
            /** @description Scalars are text, as they are written */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @description Hostnames where the skill is offered; `["*"]` means everywhere */
            domains: string[];
            /** @description Only of a built-in skill */
            location: string | null;
            /** @description 1 and upwards, one more with every change */
            version: number;
            /** @description An estimate of the body’s size in an agent’s context: its bytes divided by four */
            tokens: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            archived_at: string | null;
        };
        SkillPatchOperation: {
            /** @constant */
            type: "replace";
            before: string;
            after: string;
            /**
             * @description How often the text must occur, neither more nor less
             * @default 1
             */
            expected_matches: number;
        } | {
            /** @constant */
            type: "insert";
            anchor: string;
            text: string;
            /**
             * @default after
             * @enum {string}
             */
            position: "before" | "after";
            /**
             * @description How often the text must occur, neither more nor less
             * @default 1
             */
            expected_matches: number;
        } | {
            /** @constant */
            type: "delete";
            before: string;
            /**
             * @description How often the text must occur, neither more nor less
             * @default 1
             */
            expected_matches: number;
        };
        SkillSummary: {
            id: string;
            name: string;
            description: string;
        };
        SkillVersion: {
            version: number;
            /** @description Address of the person who made it */
            created_by: string;
            /** Format: date-time */
            created_at: string;
        };
        Subscription: {
            /** @description The billing provider’s id */
            id: string;
            /** @enum {string} */
            status: "incomplete" | "incomplete_expired" | "trialing" | "active" | "past_due" | "canceled" | "unpaid" | "paused";
            plan_id: string;
            /** @description The billing provider’s product */
            product_id: string;
            /** @description The billing provider’s customer */
            customer_id: string;
            current_period_end: string | null;
            cancel_at: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        SubscriptionStatus: {
            has_subscription: boolean;
            /** @description True for the states `active` and `trialing` */
            is_active: boolean;
            /**
             * @description `none` without a subscription
             * @enum {string}
             */
            status: "incomplete" | "incomplete_expired" | "trialing" | "active" | "past_due" | "canceled" | "unpaid" | "paused" | "none";
            /** @description Without a subscription: the plan that the organization is on */
            plan_id: string;
            current_period_end: string | null;
            cancel_at: string | null;
        };
        Thread: {
            id: string;
            /** @description Null for an anonymous visitor */
            end_user_id: string | null;
            site_id: string | null;
            title: string | null;
            /** @enum {string} */
            status: "regular" | "archived" | "deleted";
            message_count: number;
            total_tokens: number;
            last_message_at: string | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        ThreadAnalytics: {
            total_threads: number;
            total_messages: number;
            total_tokens: number;
            /** @description Those with the status `regular` */
            active_threads: number;
            archived_threads: number;
        };
        ThreadList: {
            threads: components["schemas"]["Thread"][];
            total: number;
        };
        Ticket: {
            ticket: string;
            /** @description The end user, or the key without an ID token */
            userId: string;
            orgId: string;
            /** @description Milliseconds since the Unix epoch */
            expiresAt: number;
            /** @description Seconds */
            expiresIn: number;
        };
        TokenExpiredError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "TOKEN_EXPIRED";
            /** @constant */
            status: 401;
            /** @default The ID token has expired */
            message: string;
            data: {
                /** @constant */
                code: "TOKEN_EXPIRED";
            };
        };
        UndefinedError: {
            /** @constant */
            defined: false;
            code: string;
            status: number;
            message: string;
            data?: unknown;
        };
        UsageEvent: {
            id: string;
            end_user_id: string;
            site_id: string | null;
            prompt_tokens: number;
            completion_tokens: number;
            total_tokens: number;
            model: string;
            finish_reason: string;
            /** Format: date-time */
            created_at: string;
        };
        UsageTotals: {
            total_requests: number;
            total_prompt_tokens: number;
            total_completion_tokens: number;
            total_tokens: number;
        };
        ValidationError: {
            /** @constant */
            defined: true;
            /** @constant */
            code: "BAD_REQUEST";
            /** @constant */
            status: 400;
            /** @default Invalid request data */
            message: string;
            data: {
                /** @constant */
                code: "VALIDATION_ERROR";
                field: string;
                details: string;
            };
        };
        Warning: {
            /** @enum {string} */
            code: "KEY_ALLOWS_ANY_ORIGIN";
            /** @description What is wrong, and what to set */
            message: string;
            publishable_key_id: string;
            /** @description Where the key was used lately; a sample of at most 20 origins per organization */
            origins: {
                origin: string;
                count: number;
                /** Format: date-time */
                first_at: string;
                /** Format: date-time */
                last_at: string;
            }[];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getCurrentUser: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listOrganizations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"][];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createOrganization: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getOrganizationBySlug: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                slug: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listMembers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Member"][];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    removeMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateMember: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    role: "admin" | "member";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Member"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    leaveOrganization: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listInvitations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Invitation"][];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createInvitation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** Format: email */
                    email: string;
                    /** @enum {string} */
                    role: "admin" | "member";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Invitation"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    deleteInvitation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listMyInvitations: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MyInvitation"][];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    acceptInvitation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    declineInvitation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getOrganization: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listPublishableKeys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        keys: components["schemas"]["PublishableKey"][];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createPublishableKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    /** @default [] */
                    allowed_origins?: string[];
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPublishableKey"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    revokePublishableKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PublishableKey"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updatePublishableKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string;
                    allowed_origins?: string[];
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PublishableKey"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    revealPublishableKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        key: string;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    exchangeTicket: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    publishable_key: string;
                    /** @description From the organization’s identity provider */
                    id_token?: string;
                    /** @description Where the widget is embedded, when its own frame asks */
                    embedding_origin?: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ticket"];
                };
            };
            /** @description The request body is missing or malformed */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InvalidBodyError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description The publishable key is not valid, or The ID token could not be verified, or The ID token has expired */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InvalidKeyError"] | components["schemas"]["InvalidTokenError"] | components["schemas"]["TokenExpiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Subscription required, or This origin may not use the publishable key, or The organization trusts no identity provider yet */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PaymentRequiredError"] | components["schemas"]["OriginNotAllowedError"] | components["schemas"]["IdpNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getIdentityProviderConfig: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityProviderConfig"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateIdentityProviderConfig: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    idp_type?: ("okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc" | "idp_vendor_1" | "idp_vendor_2" | "idp_vendor_3" | "idp_vendor_4" | "idp_vendor_5" | "idp_vendor_6" | "idp_vendor_7" | "idp_vendor_8") | null;
                    /** @description OIDC client IDs; null accepts any, in development only */
                    allowed_audiences?: string[] | null;
                    idp_domain?: string | null;
                    idp_issuer?: string | null;
                    allowed_domains?: string[];
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityProviderConfig"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    testIdentityProvider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    idp_type: "okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc" | "idp_vendor_1" | "idp_vendor_2" | "idp_vendor_3" | "idp_vendor_4" | "idp_vendor_5" | "idp_vendor_6" | "idp_vendor_7" | "idp_vendor_8";
                    idp_domain?: string | null;
                    idp_issuer?: string | null;
                    /** @description OIDC client IDs; null accepts any, in development only */
                    allowed_audiences?: string[] | null;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityProviderTest"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getAllowedDomains: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        allowed_domains: string[];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    setAllowedDomains: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    allowed_domains: string[];
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        allowed_domains: string[];
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listSites: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Site"][];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    deleteSite: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listEndUsers: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        users: components["schemas"]["EndUser"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getEndUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndUser"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    eraseEndUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listHubSources: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        count: number;
                        sources: components["schemas"]["HubSource"][];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listHubTools: {
        parameters: {
            query?: {
                /** @description Part of the name or the description */
                search?: string;
                /** @description Of one page only */
                source_id?: string;
                /** @description Say which pages offer each tool */
                include_sources?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        count: number;
                        tools: components["schemas"]["HubTool"][];
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listConnectors: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        connectors: components["schemas"]["Connector"][];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createConnector: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    /** @enum {string} */
                    kind: "id_jag" | "oauth";
                    /** Format: uri */
                    server_url: string;
                    /** @description Required for `id_jag` */
                    client_id?: string;
                    /** @description Required for `id_jag` */
                    client_secret?: string;
                    idp_client_id?: string;
                    idp_client_secret?: string;
                    /** @description For `id_jag` without them: `mcp:tools:read` and `mcp:tools:call` */
                    scopes?: string[];
                    /**
                     * @default resource
                     * @enum {string}
                     */
                    audience_mode?: "resource" | "issuer";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getConnector: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    deleteConnector: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateConnector: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string;
                    client_secret?: string;
                    /** @description Only where there is an `idp_client_id` */
                    idp_client_secret?: string;
                    scopes?: string[];
                    /** @enum {string} */
                    audience_mode?: "resource" | "issuer";
                    /** @enum {string} */
                    status?: "active" | "disabled";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    testConnector: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConnectorTest"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listSkills: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @default 100 */
                    limit?: number;
                    /** @default 0 */
                    offset?: number;
                    /**
                     * @description A part of the name or the description, in any case of letters
                     * @default
                     */
                    query?: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillSummary"][];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createSkill: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    content: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getSkill: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Skill"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    archiveSkill: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Skill"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    patchSkill: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    patch?: {
                        /** @constant */
                        version: 1;
                        operations: components["schemas"]["SkillPatchOperation"][];
                    };
                    domains?: string[];
                    /** @description Refuse with 409 when the skill is no longer at this version */
                    expected_version?: number;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listSkillVersions: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        versions: components["schemas"]["SkillVersion"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getSkillVersion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FullSkillVersion"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    restoreSkill: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    version: number;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listRefusals: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        refusals: components["schemas"]["Refusal"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listWarnings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        warnings: components["schemas"]["Warning"][];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getGovernanceProvider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    clearGovernanceProvider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateGovernanceProvider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    provider_key?: "vendor_default" | "byo";
                    /** Format: uri */
                    interceptor_url?: string;
                    interceptor_name?: string;
                    api_key?: string;
                    is_enabled?: boolean;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    testGovernanceProvider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    provider_key?: "vendor_default" | "byo";
                    /** Format: uri */
                    interceptor_url?: string;
                    interceptor_name?: string;
                    api_key?: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GovernanceTest"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getGithubApp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GithubApp"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    removeGithubApp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GithubAppRemoval"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    startGithubAppManifest: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    github_org_name: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GithubAppManifestStart"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getDailyUsage: {
        parameters: {
            query?: {
                /** @description Only what happened on this site */
                site_id?: string;
                /** @description First UTC day, as a date or as a moment within it; default: 30 days up to the end */
                start_date?: string;
                /** @description Last UTC day, as a date or as a moment within it, inclusive; default: today */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DailyUsage"][];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getUsageStats: {
        parameters: {
            query?: {
                /** @description Only what happened on this site */
                site_id?: string;
                /** @description First UTC day, as a date or as a moment within it; default: 30 days up to the end */
                start_date?: string;
                /** @description Last UTC day, as a date or as a moment within it, inclusive; default: today */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageTotals"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listSiteUsage: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                /** @description First UTC day, as a date or as a moment within it; default: 30 days up to the end */
                start_date?: string;
                /** @description Last UTC day, as a date or as a moment within it, inclusive; default: today */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        sites: components["schemas"]["SiteUsage"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listEndUserUsage: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                /** @description First UTC day, as a date or as a moment within it; default: 30 days up to the end */
                start_date?: string;
                /** @description Last UTC day, as a date or as a moment within it, inclusive; default: today */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        users: components["schemas"]["EndUserUsage"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getEndUserUsageStats: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                end_user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageTotals"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listEndUserUsageHistory: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                end_user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        events: components["schemas"]["UsageEvent"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listThreads: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                /** @description Without it, all but the deleted ones */
                status?: "regular" | "archived" | "deleted";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadList"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listEndUserThreads: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
                /** @description Without it, all but the deleted ones */
                status?: "regular" | "archived" | "deleted";
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadList"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getThreadAnalytics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadAnalytics"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getThread: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateThread: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    title?: string;
                    /** @enum {string} */
                    status?: "regular" | "archived" | "deleted";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listPlans: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        plans: components["schemas"]["Plan"][];
                        count: number;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getPlanInfo: {
        parameters: {
            query?: {
                /** @description `basic` is the plan alone, `features` adds features and limits, `usage` adds limits and usage */
                include?: "basic" | "features" | "usage" | "all";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanInfo"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    checkFeature: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    feature: "sso" | "scim" | "audit_logs" | "custom_domains" | "end_users" | "seats";
                    /** @description Instead of what the organization uses, for limited features */
                    current_usage?: number;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @enum {string} */
                        feature: "sso" | "scim" | "audit_logs" | "custom_domains" | "end_users" | "seats";
                        allowed: boolean;
                        /** @description Why not; null when allowed */
                        reason: string | null;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Subscription"] | null;
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getSubscriptionStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionStatus"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getCheckoutUrl: {
        parameters: {
            query: {
                /** @description The billing provider’s product of the plan */
                product_id: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found, or This installation has no billing provider */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getPortalUrl: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description This installation has no billing provider */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    syncSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Subscriptions that the provider has */
                        synced: number;
                        /** @description Subscriptions that it no longer has */
                        deleted: number;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description This installation has no billing provider */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getDirectoryStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DirectoryStatus"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listDirectories: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        directories: components["schemas"]["Directory"][];
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    createDirectory: {
        parameters: {
            query?: never;
            header?: {
                /** @description Makes a retry safe: a value of your choice, such as a UUID, that is new for each thing you create. For 24 hours, a request with the same key and the same input gets the response of the first one, with the header `Idempotent-Replayed: true`, and creates nothing. Another input with the same key is a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is being answered, or if it ended without a known outcome, the key is a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was refused leaves the key free. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    /** @enum {string} */
                    type: "okta" | "azure" | "google" | "onelogin" | "generic";
                    domain: string;
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedDirectory"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    getDirectory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Directory"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    deleteDirectory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        success: boolean;
                    };
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    updateDirectory: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string;
                    /** @enum {string} */
                    type?: "okta" | "azure" | "google" | "onelogin" | "generic";
                    domain?: string;
                    /** @enum {string} */
                    status?: "active" | "inactive";
                };
            };
        };
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Directory"];
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required, or Subscription required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource already exists */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listDirectoryUsers: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        users: components["schemas"]["DirectoryUser"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listDirectoryGroups: {
        parameters: {
            query?: {
                limit?: number;
                offset?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        groups: components["schemas"]["DirectoryGroup"][];
                        total: number;
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Resource not found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
    listAuditEvents: {
        parameters: {
            query?: {
                limit?: number;
                cursor?: string;
                actor?: string;
                action?: string;
                target?: string;
                start_date?: string;
                /** @description Inclusive */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        events: components["schemas"]["AuditEvent"][];
                        /** @description For the next page; null on the last one */
                        next_cursor: string | null;
                        verification: components["schemas"]["AuditVerification"];
                    };
                };
            };
            /** @description Invalid request data */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Authentication required */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Access denied, or Organization context required */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description An Inlay error occurred */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other failure */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UndefinedError"];
                };
            };
        };
    };
}
