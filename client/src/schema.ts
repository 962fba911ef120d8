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
         * Get the signed-in user and their organizations
         * @description Call this first with a new token to find out who it belongs to and which organizations it can be used for. The response is a 404 if the account behind the token has been deleted. Needs an access token of any signed-in user.
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
         * Sign out
         * @description Revokes the access token that you call with, and ends the session it was issued in. Every other access token and refresh token of that session stops working too. Sessions on other devices are not affected. Needs an access token of any signed-in user.
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
         * List your organizations
         * @description Returns every organization that you are a member of, with your role in each. To act on one of them, sign in again and choose it: organization operations use the organization that the access token carries. Needs an access token of any signed-in user.
         */
        get: operations["listOrganizations"];
        put?: never;
        /**
         * Create an organization
         * @description You become its first admin. The organization starts on the free plan. Your current token still belongs to the organization that you chose when you signed in; get a new token to work in the new one. Needs an access token of any signed-in user.
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
         * Get one of your organizations by slug
         * @description Returns an organization that you are a member of. The response is a 404 if the organization doesn’t exist or if you aren’t a member. Needs an access token of any signed-in user.
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
         * List members
         * @description Returns the members of the organization with their profiles and roles. Open invitations aren’t included. Needs an access token for an organization that you are a member of.
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
         * Remove a member
         * @description The member’s tokens stop working for this organization, and their open connections are closed. Their account and their other organizations aren’t affected. You can’t remove the last admin: the response is a 409 with the code `LAST_ADMIN`. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["removeMember"];
        options?: never;
        head?: never;
        /**
         * Change a member’s role
         * @description The new role applies to the member’s existing tokens too. You can’t demote the last admin: the response is a 409 with the code `LAST_ADMIN`. Needs an access token for an organization in which you have the admin role.
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
         * Leave the organization
         * @description Ends your own membership. Your tokens for this organization stop working. The last admin can’t leave: the response is a 409 with the code `LAST_ADMIN`. Needs an access token for an organization that you are a member of.
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
         * List open invitations
         * @description Returns the organization’s invitations that haven’t been accepted, declined or withdrawn. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["listInvitations"];
        put?: never;
        /**
         * Invite a user by email
         * @description Inlay sends no email: send the `url` of the response to the invited user. They accept or decline there, at their next sign-in, or with the API, signed in with that verified address. An open invitation uses a seat of the plan: the response is `PAYMENT_REQUIRED` if no seat is left. It is `DUPLICATE_RESOURCE` if the address is already invited or belongs to a member. Needs an access token for an organization in which you have the admin role.
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
         * @description The user can no longer accept it, and its seat is free again. Withdrawing doesn’t remove a user who has already accepted. Needs an access token for an organization in which you have the admin role.
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
         * List invitations to you
         * @description Returns the open invitations to your verified email address, newest first, at most 100. The list is empty while your address isn’t verified. Needs an access token of any signed-in user.
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
         * @description You become a member with the role of the invitation. Get a new token to work in the organization. The response is a 404 if the invitation was withdrawn, has already been answered, or is for another address, and a 403 if the organization’s directory has deactivated your membership. Needs an access token of any signed-in user.
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
         * @description The invitation is deleted and its seat is free again. The response is a 404 if the invitation was withdrawn, has already been answered, or is for another address. Needs an access token of any signed-in user.
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
         * Get one of your organizations by ID
         * @description Returns an organization that you are a member of. The response is a 404 if the organization doesn’t exist or if you aren’t a member. Needs an access token of any signed-in user.
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
         * List publishable keys
         * @description Returns every key of the organization, including revoked ones, without the full key. To see a full key again, use the reveal operation. Needs an access token for an organization that you are a member of.
         */
        get: operations["listPublishableKeys"];
        put?: never;
        /**
         * Create a publishable key
         * @description The response contains the full `key`, which goes into your page with the widget’s tag. It is meant to be public, so restrict it to your own origins. Each allowed origin counts as a site of your plan, and a wildcard counts as one site. If your plan has no site left, the request fails with `PAYMENT_REQUIRED`. Needs an access token for an organization in which you have the admin role.
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
         * Revoke a key
         * @description Widgets that use the key are disconnected, and ticket requests fail with `INVALID_KEY`. A revoked key can’t be restored. Revoking it again changes nothing. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["revokePublishableKey"];
        options?: never;
        head?: never;
        /**
         * Rename a key or change its origins
         * @description Fields that you omit stay unchanged. If you remove an origin, the widgets on its pages are disconnected within a minute. Each allowed origin counts as a site of your plan, and a wildcard counts as one site. Needs an access token for an organization in which you have the admin role.
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
         * Show the full key again
         * @description The request is recorded in the audit trail. Returns a 404 if the key’s `can_reveal` is false. Needs an access token for an organization in which you have the admin role.
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
         * Exchange a publishable key for a ticket
         * @description The widget calls this before it connects; you only need it if you build your own widget. Send the publishable key and, if the user is signed in, their ID token. The ticket opens one connection to the runtime and expires after 60 seconds. Errors: `INVALID_BODY`: a field is missing or malformed. `INVALID_KEY`: the key is mistyped, unknown or revoked. `ORIGIN_NOT_ALLOWED`: add the page’s origin to the key. `INVALID_TOKEN`: the ID token failed a check; an admin can see which one in `GET /diagnostics/refusals`. `TOKEN_EXPIRED`: get a new ID token and try again. `IDP_NOT_CONFIGURED`: set up the organization’s identity provider first. `PAYMENT_REQUIRED`: the plan’s limit for end users is reached; existing end users can still connect. Needs no access token.
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
         * Get the identity provider configuration
         * @description Returns the provider whose ID tokens the widget accepts, and the origins that can embed the widget. All five fields are always present; a field that isn’t set is null or an empty list. Needs an access token for an organization that you are a member of.
         */
        get: operations["getIdentityProviderConfig"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change the identity provider configuration
         * @description Send only the fields to change; null clears a field. You can set the type first and the domain later; until then, ID tokens are rejected with `IDP_NOT_CONFIGURED`. An invalid setting fails with a `VALIDATION_ERROR` for its field. Connected widgets have to authenticate again. To check your settings without saving them, use the test operation first. Needs an access token for an organization in which you have the admin role.
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
         * Test an identity provider without saving it
         * @description Fetches the provider’s discovery document and compares its issuer. If that fails, the response is still a 200, with `success: false` and the reason in `error`. A missing or malformed setting fails with a `VALIDATION_ERROR` for its field. Nothing is saved, and no ID token is checked. Needs an access token for an organization in which you have the admin role.
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
         * Get the allowed domains
         * @description Returns the origins that can embed the widget with any key that doesn’t have its own origins. It is the same list as `allowed_domains` in the identity provider configuration. Needs an access token for an organization that you are a member of.
         */
        get: operations["getAllowedDomains"];
        /**
         * Replace the allowed domains
         * @description Applies to keys without their own origins. If you remove an origin, the widgets on its pages are disconnected within a minute. Each origin counts as a site of your plan, and a wildcard counts as one site. If your plan has no site left, the request fails with `PAYMENT_REQUIRED`. Needs an access token for an organization in which you have the admin role.
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
         * List sites
         * @description A site is an origin that an admin has allowed, on a publishable key or in the allowed domains. A site that is no longer allowed stays in the list while usage is recorded for it, and doesn’t count towards the plan. Needs an access token for an organization that you are a member of.
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
         * Delete a site that is no longer allowed
         * @description The site’s usage is kept, but no longer belongs to a site. If a key or the allowed domains still include the origin, the request fails with a 409 `SITE_STILL_ALLOWED`, and the message says where to remove the origin first. Needs an access token for an organization in which you have the admin role.
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
         * List end users
         * @description End users are the signed-in users of your pages with the widget. An end user is created from the ID token at the first visit. The list is ordered by creation date. Anonymous visitors aren’t included. Needs an access token for an organization that you are a member of.
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
         * Get an end user
         * @description Returns the profile from the last ID token. Returns a 404 if the end user doesn’t exist or was erased. Needs an access token for an organization that you are a member of.
         */
        get: operations["getEndUser"];
        put?: never;
        post?: never;
        /**
         * Erase an end user
         * @description Deletes the profile and the threads of an end user, and closes their connections. Usage stays in the organization’s totals, without the identity. If the user visits again, a new end user is created. To prevent that, block the user at your identity provider. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["eraseEndUser"];
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
         * Get the governance provider
         * @description A governance provider allows or blocks every tool call. Returns its configuration, without the API key, and whether it’s in effect. Needs an access token for an organization that you are a member of.
         */
        get: operations["getGovernanceProvider"];
        put?: never;
        post?: never;
        /**
         * Remove the governance provider
         * @description Deletes the configuration and the API key. Tool calls are no longer checked. Has no effect if no provider is configured. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["clearGovernanceProvider"];
        options?: never;
        head?: never;
        /**
         * Set up or change the governance provider
         * @description Fields that you leave out stay as they are. The first change creates a `byo` provider that is disabled unless you set `is_enabled`; test it before you enable it. If you change `interceptor_url` to another host, send the `api_key` again: a saved key is only sent to the host it was saved for. Changing the connection discards the last test result. Needs an access token for an organization in which you have the admin role.
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
         * Test the governance provider
         * @description Sends a sample call to the interceptor and checks that its response is valid. Fields that you leave out come from the saved configuration. The result is saved only if you test the saved configuration unchanged. A failed test is still a 200, with `status: failure`. Needs an access token for an organization in which you have the admin role.
         */
        post: operations["testGovernanceProvider"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
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
         * List plans
         * @description Returns every plan that this installation offers, smallest first. Needs an access token for an organization that you are a member of.
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
         * Get the organization’s plan
         * @description Returns the plan with its features and limits, and how much of it is used. Needs an access token for an organization that you are a member of.
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
         * Check whether the plan allows a feature
         * @description Use this before you offer a feature in your own interface. For `sso`, `scim`, `audit_logs` and `custom_domains`, it checks whether the plan includes the feature; for `seats` and `end_users`, whether one more fits within the limit. A feature that isn’t allowed is still a 200, with `allowed: false`. Needs an access token for an organization that you are a member of.
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
         * Get the organization’s subscription
         * @description Returns the full record, or null if the organization has no subscription. If it has several, an active one comes first, then the newest. Needs an access token for an organization that you are a member of.
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
         * Get the subscription status
         * @description Returns a short summary, also for an organization without a subscription. Use it to decide whether to show an upgrade button. Needs an access token for an organization that you are a member of.
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
         * Get a checkout link
         * @description Returns a URL as a JSON string. Redirect the user to it to buy the plan; the URL carries the organization’s ID, so that the purchase is assigned to it. The response is a 404: `RESOURCE_NOT_FOUND` if no plan has this product, `BILLING_NOT_CONFIGURED` if this installation has no billing provider. Needs an access token for an organization that you are a member of.
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
         * Get a link to the billing portal
         * @description Returns a URL as a JSON string. Redirect the user to it to change or cancel the subscription or to see invoices. The response is a 404 with `BILLING_NOT_CONFIGURED` if this installation has no billing provider. Needs an access token for an organization in which you have the admin role.
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
         * Sync subscriptions from the billing provider
         * @description Use this if a purchase or a cancellation doesn’t show up. The organization’s plan is updated to match its subscriptions. The response is a 404 with `BILLING_NOT_CONFIGURED` if this installation has no billing provider. Needs an access token for an organization that you are a member of.
         */
        post: operations["syncSubscription"];
        delete?: never;
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
         * List your open pages
         * @description Returns your open pages that have the widget, in any browser, and how many tools each one offers. You only see pages where you’re signed in with the same verified email address as here. The MCP tool `hub_list_sources` returns the same list. Needs an access token for an organization that you are a member of.
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
         * List the tools of your open pages
         * @description Returns the tools of your open pages and of the connectors you can use. A tool that several pages define identically is listed once. To call a tool, use the MCP tool `hub_call_tool`. The response is a 404 if `source_id` isn’t one of your open pages. Needs an access token for an organization that you are a member of.
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
    "/tool-calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List tool calls
         * @description Returns the tool calls through the hub, newest first. Calls on other nodes appear a few seconds after they end. A page can have fewer calls than `limit`, or none at all, even if there are more: continue until `next_cursor` is null. With `format`, the response is one page as CSV or JSON Lines, and the `Next-Cursor` header has the cursor of the next page. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["listToolCalls"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/tool-calls/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the retention of tool call contents
         * @description Every tool call is recorded. This setting determines how long its arguments and result are kept. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["getToolCallSettings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Update the retention of tool call contents
         * @description Arguments and results are often personal data, so tell your users before you store them. They’re stored only for users who are also end users of the organization, and deleted with the end user. A shorter period also applies to contents that are already stored; a longer one doesn’t. With 0, stored contents can no longer be read and are deleted within minutes. Needs an access token for an organization in which you have the admin role.
         */
        patch: operations["updateToolCallSettings"];
        trace?: never;
    };
    "/tool-calls/{id}/contents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the arguments and result of a tool call
         * @description Returns the arguments and result if the organization stored contents when the call was made and they haven’t expired. Otherwise the response is a 404. Each text is truncated after 16,384 characters, so it may be incomplete JSON. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["getToolCallContents"];
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
         * List connectors
         * @description Returns all connectors of the organization without their secrets. A connector is a remote tool server (MCP) whose tools Inlay calls on behalf of the user. Needs an access token for an organization that you are a member of.
         */
        get: operations["listConnectors"];
        put?: never;
        /**
         * Create a connector
         * @description Use `id_jag` for your own tool servers: their tools appear in the hub for members who have signed in on a page with the widget. If Inlay’s client at the identity provider differs from the one at the tool server, send both `idp_client_id` and `idp_client_secret`. Use `oauth` for third-party servers: each member connects their account at `/connect/{id}`, and you only need a client if Inlay can’t register itself there. The response is a 409 if the name is in use. Needs an access token for an organization in which you have the admin role.
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
         * Get a connector
         * @description Returns the settings of a connector without its secrets. Needs an access token for an organization that you are a member of.
         */
        get: operations["getConnector"];
        put?: never;
        post?: never;
        /**
         * Delete a connector
         * @description Removes the connector’s tools from the hub. Tokens that were issued for it are no longer used. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["deleteConnector"];
        options?: never;
        head?: never;
        /**
         * Update a connector
         * @description Fields that you leave out keep their values. You can’t change the server URL or the client IDs, because secrets are only sent to the server they were entered for; create another connector instead. The response is a 409 if the name is in use. Needs an access token for an organization in which you have the admin role.
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
         * Test a connector as yourself
         * @description Runs the whole flow step by step with new tokens, up to listing the tools; no tool is called. For `id_jag`, Inlay uses your identity from the last page with the widget that you signed in to, so sign in to such a page first. If a step fails, the response is still a 200, with `success: false`. Needs an access token for an organization in which you have the admin role.
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
         * List skills
         * @description Returns the built-in skills, then the organization’s active skills by name, without their text. A skill is a Markdown document with instructions for agents. Needs an access token for an organization that you are a member of.
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
         * @description The text must start with YAML frontmatter between two `---` lines, with at least a `name` and a `description`. Invalid frontmatter is a `VALIDATION_ERROR` that explains the problem. The response is a 409 if an active skill or a built-in skill already has the name, and `PAYMENT_REQUIRED` if the plan’s skill limit is reached. Needs an access token for an organization that you are a member of.
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
         * Get a skill
         * @description Returns a skill with its full text, even if it’s archived. For a built-in skill, use its `location` as the ID. Needs an access token for an organization that you are a member of.
         */
        get: operations["getSkill"];
        put?: never;
        post?: never;
        /**
         * Archive a skill
         * @description Agents no longer see the skill, and another skill can use its name. All versions are kept: restore one to make the skill active again. Archiving an archived skill has no effect. Needs an access token for an organization that you are a member of.
         */
        delete: operations["archiveSkill"];
        options?: never;
        head?: never;
        /**
         * Edit a skill
         * @description Changes the text, the domains, or both; send at least one. Operations apply in order to the whole SKILL.md, each to the result of the previous one. If an operation doesn’t match, or the result isn’t a valid skill, nothing changes. Every version is kept. Built-in skills can’t be changed. Needs an access token for an organization that you are a member of.
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
         * List the versions of a skill
         * @description Returns all versions, newest first, without their text. Needs an access token for an organization that you are a member of.
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
         * Get a version of a skill
         * @description Returns the text and domains of this version. Needs an access token for an organization that you are a member of.
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
         * Restore an earlier version of a skill
         * @description Saves an earlier version as a new one, so no version is lost. An archived skill becomes active again: the response is a 409 if another skill now has its name, and `PAYMENT_REQUIRED` if the plan’s skill limit is reached. Needs an access token for an organization that you are a member of.
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
         * List refused requests
         * @description Look here if a widget, a directory or a connector doesn’t work: each entry names the check that failed, what was expected and what was sent. Inlay keeps the last 200 distinct refusals; a repeated refusal increases its `count`. New refusals appear within a few seconds. Requests with an unknown key aren’t included, because they don’t belong to an organization. Needs an access token for an organization in which you have the admin role.
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
         * List settings that need attention
         * @description A key without allowed origins, in an organization without allowed domains, works on any website, and its usage isn’t counted for any site. A warning disappears when you fix the setting. Needs an access token for an organization in which you have the admin role.
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
    "/org-github-apps/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the organization’s GitHub app
         * @description Returns the organization’s own GitHub app without its secrets, or `configured: false` if it uses the platform’s app. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["getGithubApp"];
        put?: never;
        post?: never;
        /**
         * Remove the organization’s GitHub app
         * @description Deletes the app’s credentials from Inlay and reverts to the platform’s app. The app still exists on GitHub, where its owner can delete it. The response is a 404 if no app is configured. Needs an access token for an organization in which you have the admin role.
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
         * Start registering a GitHub app
         * @description Have the browser post `manifest`, as a form field of that name, to `registration_url` within an hour. GitHub then asks the user to confirm. If an app is already configured, the response is a 409: remove it first. Needs an access token for an organization in which you have the admin role.
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
         * Get usage per day
         * @description Returns one entry for each UTC day of the range, oldest first, ready to chart. Days without traffic are included with zeros. A range can be at most ten years long. The response is a 404 if `site_id` isn’t one of the organization’s sites. Needs an access token for an organization that you are a member of.
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
         * Get the organization’s usage totals
         * @description Returns totals for a range of UTC days, for the whole organization or for one site. The response is a 404 if `site_id` isn’t one of the organization’s sites. Needs an access token for an organization that you are a member of.
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
         * List usage per site
         * @description Returns totals per site for a range of UTC days, sites with the most tokens first. Needs an access token for an organization that you are a member of.
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
         * List usage per end user
         * @description Returns totals per end user for a range of UTC days, end users with the most tokens first. Usage by anonymous visitors and erased end users counts only toward the organization’s totals. Needs an access token for an organization that you are a member of.
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
         * Get an end user’s usage totals
         * @description Returns the end user’s totals since their first visit. The response is a 404 if the end user doesn’t exist or has been erased. Needs an access token for an organization that you are a member of.
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
         * List an end user’s usage
         * @description Returns one entry for each model response, newest first. The response is a 404 if the end user doesn’t exist or has been erased. Needs an access token for an organization that you are a member of.
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
         * List threads
         * @description A thread is one conversation with the agent. Returns each thread’s metadata, without its messages. The most recently active threads come first. Needs an access token for an organization that you are a member of.
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
         * List an end user’s threads
         * @description Returns the metadata of each of the end user’s threads, without the messages. The most recently active threads come first. The response is a 404 if the end user doesn’t exist or has been erased. Needs an access token for an organization that you are a member of.
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
         * Get thread totals
         * @description Returns totals for all of the organization’s threads, except deleted ones. Needs an access token for an organization that you are a member of.
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
         * Get a thread
         * @description Returns a thread, whatever its status, including `deleted`. The messages aren’t included. Needs an access token for an organization that you are a member of.
         */
        get: operations["getThread"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Rename, archive, delete or restore a thread
         * @description Fields that you leave out stay as they are. Set the status to `deleted` to hide the thread from lists, and to `regular` to restore it. Needs an access token for an organization that you are a member of.
         */
        patch: operations["updateThread"];
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
         * Get the directory status
         * @description Returns whether the organization has directories and which one is active. Available on every plan. Needs an access token for an organization that you are a member of.
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
         * List directories
         * @description Returns the organization’s directories, oldest first, without their bearer tokens. Needs an access token for an organization that you are a member of.
         */
        get: operations["listDirectories"];
        put?: never;
        /**
         * Connect a directory
         * @description Enter the `scim_base_url` and the `bearer_token` from the response in your directory’s SCIM settings. The token is shown only once. Requires a plan with SCIM; otherwise the response is `PAYMENT_REQUIRED`. A domain can have only one active directory; a second one is a 409. Needs an access token for an organization in which you have the admin role.
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
         * Get a directory
         * @description Returns a directory with the number of its users and groups, without its bearer token. Needs an access token for an organization that you are a member of.
         */
        get: operations["getDirectory"];
        put?: never;
        post?: never;
        /**
         * Disconnect a directory
         * @description Deletes the directory and the users and groups that it sent. Its bearer token stops working. To connect it again, create a new directory. Needs an access token for an organization in which you have the admin role.
         */
        delete: operations["deleteDirectory"];
        options?: never;
        head?: never;
        /**
         * Change, activate or deactivate a directory
         * @description Fields that you leave out stay as they are. Activating a directory requires a plan with SCIM; otherwise the response is `PAYMENT_REQUIRED`. A domain can have only one active directory; a second one is a 409. Needs an access token for an organization in which you have the admin role.
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
         * List the users in a directory
         * @description Returns the users in the order in which your directory first sent them. Needs an access token for an organization that you are a member of.
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
         * List the groups in a directory
         * @description Returns the groups in the order in which your directory first sent them. Needs an access token for an organization that you are a member of.
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
         * List audit events
         * @description Returns the changes in the organization, newest first, and whether the trail is intact. Requires a plan with audit logs. Pass `next_cursor` as `cursor` to get the next page; filters can be combined. Needs an access token for an organization in which you have the admin role.
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
    "/audit-events/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export audit events as JSON Lines
         * @description Streams every event after a head, oldest first, one JSON object per line, for a SIEM. Requires a plan with audit logs. Store the `head` of the last line and pass it as `from` next time. The response ends with the newest event, or after five minutes; it’s complete if it ends without a connection error. The response is a 409 with `AUDIT_HEAD_NOT_FOUND` if the trail doesn’t contain `from`. Needs an access token for an organization in which you have the admin role.
         */
        get: operations["exportAuditEvents"];
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
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "FORBIDDEN";
            /**
             * @description HTTP status
             * @constant
             */
            status: 403;
            /**
             * @description Human-readable explanation
             * @default Access denied
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "ACCESS_DENIED";
                /** @description Why you can’t do this */
                reason: string;
            };
        };
        AuditEvent: {
            /** @description ID of the event */
            id: string;
            /** @description Position in the organization’s trail, from 1 without gaps */
            sequence: number;
            /** @description Email address of the user who made the change, or the name of the component that did */
            actor: string;
            /** @description What was done, such as `publishable_key.created` */
            action: string;
            /** @description ID of the resource that was changed */
            target: string;
            /** @description Details of the change, without secrets */
            data: {
                [key: string]: unknown;
            };
            /**
             * Format: date-time
             * @description When the change was made
             */
            created_at: string;
            /** @description HMAC over the event and the previous hash, with a key that isn’t in the database */
            hash: string;
        };
        AuditHeadNotFoundError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "AUDIT_HEAD_NOT_FOUND";
            /**
             * @description HTTP status
             * @constant
             */
            status: 409;
            /**
             * @description Human-readable explanation
             * @default The organization’s audit trail doesn’t contain this head. It belongs to another organization, or events were changed or removed. Ask the operator to run `npx inlay audit verify --from` with it.
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "AUDIT_HEAD_NOT_FOUND";
            };
        };
        AuditVerification: {
            /**
             * @description `intact` if every event fits the chain; `broken` if one was changed, removed or added
             * @enum {string}
             */
            status: "intact" | "broken";
            /** @description Number of events that fit, counted from the first */
            length: number;
            /** @description The last event that fits: organization, sequence and hash. Keep it somewhere else: `npx inlay audit verify --from` proves later that the trail still contains it. */
            head: string;
            /** @description Sequence of the first event that doesn’t fit; null if intact */
            broken_at: number | null;
        };
        AuthRequiredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "UNAUTHORIZED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 401;
            /**
             * @description Human-readable explanation
             * @default Authentication required
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "AUTH_REQUIRED";
            };
        };
        BillingNotConfiguredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "BILLING_NOT_CONFIGURED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 404;
            /**
             * @description Human-readable explanation
             * @default This installation has no billing provider
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "BILLING_NOT_CONFIGURED";
            };
        };
        Connector: {
            /** @description ID of the connector */
            id: string;
            /** @description Name of the connector. Its tools are named `<name>.<tool>`. */
            name: string;
            /**
             * @description `id_jag`: your identity provider vouches for users. `oauth`: each user gives consent.
             * @enum {string}
             */
            kind: "id_jag" | "oauth";
            /** @description MCP endpoint of the tool server, and its resource ID */
            server_url: string;
            /** @description Inlay’s client ID at the tool server; null if Inlay registers itself */
            client_id: string | null;
            /** @description Last four characters of the client secret; null without one */
            client_secret_last4: string | null;
            /** @description Inlay’s client ID at your identity provider; null if it’s the same as `client_id` */
            idp_client_id: string | null;
            /** @description Last four characters of that client’s secret; null without one */
            idp_client_secret_last4: string | null;
            /** @description Scopes that Inlay requests; if empty, the scopes that the server requires */
            scopes: string[];
            /**
             * @description Audience of the assertion: the server’s resource ID (`resource`), or the issuer of its tokens (`issuer`)
             * @enum {string}
             */
            audience_mode: "resource" | "issuer";
            /** @description Tools that an admin has marked as read-only, by their names at the server. They run without asking the user, like tools with the annotation `readOnlyHint`. */
            read_only_tools: string[];
            /**
             * @description Tools of a `disabled` connector can’t be called
             * @enum {string}
             */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description When the connector was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the connector was last changed
             */
            updated_at: string;
        };
        ConnectorTest: {
            /** @description Whether every step succeeded */
            success: boolean;
            /** @description The steps in order */
            steps: {
                /**
                 * @description Name of the step
                 * @enum {string}
                 */
                step: "metadata" | "provider_exchange" | "redemption" | "tools_list" | "consent";
                /**
                 * @description `skipped` if an earlier step failed
                 * @enum {string}
                 */
                status: "ok" | "failed" | "skipped";
                /** @description What the step found, or why it failed */
                message: string;
            }[];
        };
        CreatedDirectory: {
            /** @description ID of the directory */
            id: string;
            /** @description Name that tells your directories apart */
            name: string;
            /**
             * @description Product that sends the users; `generic` for any other SCIM client
             * @enum {string}
             */
            type: "okta" | "azure" | "google" | "onelogin" | "generic";
            /** @description Domain of the email addresses in the directory */
            domain: string;
            /**
             * @description `active` accepts changes over SCIM; `inactive` rejects them
             * @enum {string}
             */
            status: "active" | "inactive";
            /** @description URL to enter in your directory’s SCIM settings */
            scim_base_url: string;
            /** @description Number of users in the directory */
            user_count: number;
            /** @description Number of groups in the directory */
            group_count: number;
            /**
             * Format: date-time
             * @description When the directory was connected
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the directory’s settings were last changed
             */
            updated_at: string;
            /** @description Token for the SCIM client; shown only once */
            bearer_token: string;
        };
        CreatedPublishableKey: {
            /** @description ID of the key; also the user ID of anonymous visitors */
            id: string;
            /** @description Name to distinguish your keys */
            name: string;
            /** @description First 12 characters of the key, for display */
            key_prefix: string;
            /** @description Origins where the key can be used; if empty, the organization’s allowed domains apply */
            allowed_origins: string[];
            /** @description Whether an admin can see the full key again */
            can_reveal: boolean;
            /** @description When the key was revoked; null if it’s active */
            revoked_at: string | null;
            /** @description When a ticket was last issued for the key; null if never */
            last_used_at: string | null;
            /**
             * Format: date-time
             * @description When the key was created
             */
            created_at: string;
            /** @description The full key, for the widget’s tag */
            key: string;
        };
        DailyUsage: {
            /**
             * Format: date
             * @description UTC day
             */
            date: string;
            /** @description Number of requests to a model on this day */
            total_requests: number;
            /** @description Prompt and completion tokens on this day */
            total_tokens: number;
        };
        Directory: {
            /** @description ID of the directory */
            id: string;
            /** @description Name that tells your directories apart */
            name: string;
            /**
             * @description Product that sends the users; `generic` for any other SCIM client
             * @enum {string}
             */
            type: "okta" | "azure" | "google" | "onelogin" | "generic";
            /** @description Domain of the email addresses in the directory */
            domain: string;
            /**
             * @description `active` accepts changes over SCIM; `inactive` rejects them
             * @enum {string}
             */
            status: "active" | "inactive";
            /** @description URL to enter in your directory’s SCIM settings */
            scim_base_url: string;
            /** @description Number of users in the directory */
            user_count: number;
            /** @description Number of groups in the directory */
            group_count: number;
            /**
             * Format: date-time
             * @description When the directory was connected
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the directory’s settings were last changed
             */
            updated_at: string;
        };
        DirectoryGroup: {
            /** @description ID of the directory group in Inlay */
            id: string;
            /** @description The group’s ID in your directory; null if it didn’t send one */
            external_id: string | null;
            /** @description Name of the group */
            display_name: string;
            /**
             * Format: date-time
             * @description When your directory first sent the group
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When your directory last changed the group
             */
            updated_at: string;
        };
        DirectoryStatus: {
            /** @description Whether any directory is connected */
            has_directory: boolean;
            /** @description Whether an active directory is connected */
            has_active_directory: boolean;
            /** @description Number of connected directories */
            directory_count: number;
            /** @description The active directory, or the oldest if several are active; omitted if none is active */
            active_directory?: {
                /** @description ID of the directory */
                id: string;
                /** @description Name that tells your directories apart */
                name: string;
                /**
                 * @description Product that sends the users; `generic` for any other SCIM client
                 * @enum {string}
                 */
                type: "okta" | "azure" | "google" | "onelogin" | "generic";
                /** @description Domain of the email addresses in the directory */
                domain: string;
                /** @description Number of users in the directory */
                user_count: number;
                /** @description Number of groups in the directory */
                group_count: number;
            };
        };
        DirectoryUser: {
            /** @description ID of the directory user in Inlay */
            id: string;
            /** @description The user’s ID in your directory; null if it didn’t send one */
            external_id: string | null;
            /** @description SCIM `userName`, often an email address */
            user_name: string;
            /** @description Primary email address */
            email: string;
            /** @description Display name */
            name: string;
            /** @description Whether the user is active in your directory */
            active: boolean;
            /**
             * Format: date-time
             * @description When your directory first sent the user
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When your directory last changed the user
             */
            updated_at: string;
        };
        DuplicateResourceError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "CONFLICT";
            /**
             * @description HTTP status
             * @constant
             */
            status: 409;
            /**
             * @description Human-readable explanation
             * @default Resource already exists
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "DUPLICATE_RESOURCE";
                /** @description Type of the resource, such as `publishable_key` */
                resource: string;
            };
        };
        EndUser: {
            /** @description ID of the end user */
            id: string;
            /** @description ID of the organization that the end user belongs to */
            organization_id: string;
            /** @description The user’s ID at your identity provider: the `sub` claim of the ID token */
            external_id: string;
            /** @description Email address from the ID token; empty if the token has none */
            email: string;
            /** @description The other claims about the user, such as name and groups, as a JSON string of at most 8 KiB. If they exceed that, the largest claims are omitted. */
            metadata: string;
            /**
             * Format: date-time
             * @description When the end user last connected
             */
            last_activity_at: string;
            /**
             * Format: date-time
             * @description When the end user first connected
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the profile was last changed
             */
            updated_at: string;
        };
        EndUserUsage: {
            /** @description ID of the end user */
            end_user_id: string;
            /** @description The user’s ID at your identity provider */
            external_id: string;
            /** @description Email address; empty if the identity provider didn’t send one */
            email: string;
            /** @description Number of requests to a model */
            total_requests: number;
            /** @description Tokens sent to the model */
            total_prompt_tokens: number;
            /** @description Tokens that the model generated */
            total_completion_tokens: number;
            /** @description Prompt and completion tokens together */
            total_tokens: number;
        };
        ExportedAuditEvent: {
            /** @description ID of the event */
            id: string;
            /** @description Position in the organization’s trail, from 1 without gaps */
            sequence: number;
            /** @description Email address of the user who made the change, or the name of the component that did */
            actor: string;
            /** @description What was done, such as `publishable_key.created` */
            action: string;
            /** @description ID of the resource that was changed */
            target: string;
            /** @description Details of the change, without secrets */
            data: {
                [key: string]: unknown;
            };
            /**
             * Format: date-time
             * @description When the change was made
             */
            created_at: string;
            /** @description HMAC over the event and the previous hash, with a key that isn’t in the database */
            hash: string;
            /** @description This event as a head: pass it as `from` to continue after it */
            head: string;
        };
        FullSkillVersion: {
            /** @description Version number */
            version: number;
            /** @description Email address of the user who created this version */
            created_by: string;
            /**
             * Format: date-time
             * @description When this version was created
             */
            created_at: string;
            /** @description The whole SKILL.md of this version */
            content: string;
            /** @description Hostnames where this version was available */
            domains: string[];
        };
        GithubApp: {
            /** @description Whether the organization has its own app. If false, the platform’s app is used and all other fields are null. */
            configured: boolean;
            /** @description GitHub organization that owns the app */
            github_org_name: string | null;
            /** @description ID of the app on GitHub */
            app_id: number | null;
            /** @description Name of the app in GitHub URLs */
            app_slug: string | null;
            /** @description URL of the app on GitHub */
            app_url: string | null;
            /** @description Connected repository, as `owner/name`; null if none is connected */
            repository: string | null;
            /** @description When the app was registered */
            created_at: string | null;
        };
        GithubAppManifestStart: {
            /** @description Always true */
            success: boolean;
            /** @description The submitted organization name */
            github_org_name: string;
            /** @description GitHub URL to post the form to */
            registration_url: string;
            /** @description The GitHub app manifest, as a JSON string */
            manifest: string;
        };
        GithubAppRemoval: {
            /** @description Always true */
            success: boolean;
            /** @description Whether a connected repository was disconnected */
            repo_disconnected: boolean;
        };
        GovernanceConfig: {
            /**
             * @description `byo` for your own interceptor, `vendor_default` for the vendor’s
             * @enum {string}
             */
            provider_key: "vendor_default" | "byo";
            /** @description URL of the interceptor, which Inlay asks about each tool call; empty until set */
            interceptor_url: string;
            /** @description Name of the interceptor; empty until set */
            interceptor_name: string;
            /** @description Last four characters of the API key; empty if no key is stored */
            api_key_last4: string;
            /** @description Whether an API key is stored */
            has_api_key: boolean;
            /** @description Whether the provider checks tool calls */
            is_enabled: boolean;
            /**
             * @description Result of the last test of this connection; empty if it hasn’t been tested
             * @enum {string}
             */
            last_test_status: "success" | "notify" | "failure" | "";
            /** @description Message from the last test; empty if there is none */
            last_test_message: string;
            /** @description When this connection was last tested; null if it hasn’t been tested */
            last_test_at: string | null;
            /**
             * Format: date-time
             * @description When the provider was set up
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the configuration was last changed
             */
            updated_at: string;
        };
        GovernanceProvider: {
            /**
             * @description `active`: every tool call is checked. `bypassed`: no provider is configured, or it’s disabled, so calls aren’t checked. `misconfigured`: the provider is enabled, but its configuration is incomplete, so every call is blocked, or its last test failed.
             * @enum {string}
             */
            effective_status: "active" | "bypassed" | "misconfigured";
            /** @description Explanation of the status */
            reason: string;
            /** @description The configuration; null if nothing is configured */
            config: components["schemas"]["GovernanceConfig"] | null;
        };
        GovernanceTest: {
            /**
             * @description Provider that was tested
             * @enum {string}
             */
            provider_key: "vendor_default" | "byo";
            /** @description URL that was tested */
            interceptor_url: string;
            /** @description Interceptor name that was tested */
            interceptor_name: string;
            /**
             * @description `success`: the interceptor allowed the call. `notify`: it allowed and reported the call. `failure`: it blocked the call, couldn’t be reached, or sent an invalid response.
             * @enum {string}
             */
            status: "success" | "notify" | "failure";
            /** @description Explanation of the result */
            message: string;
            /** @description Policies that the sample call violates */
            violations: {
                /** @description ID of the policy at the provider */
                policy_id: string;
                /**
                 * @description Severity: `notify` reports the call, `failure` blocks it
                 * @enum {string}
                 */
                status: "success" | "notify" | "failure";
                /** @description Explanation from the provider */
                details: string;
            }[];
            /** @description How long the interceptor took, in milliseconds */
            latency_ms: number;
        };
        HubSource: {
            /** @description ID of the open page; pass it as `source_id` to call a tool on this page */
            sourceId: string;
            /** @description ID of the page’s browser tab */
            tabId: string;
            /** @description Origin of the page, as seen by the ticket exchange; empty outside a browser */
            origin: string;
            /** @description Title of the page, written by the page: don’t trust it */
            title: string;
            /** @description Address of the page, sent by the page: don’t trust it */
            url: string;
            /** @description Number of tools that the page offers */
            toolCount: number;
            /**
             * Format: date-time
             * @description When the page connected
             */
            connectedAt: string;
            /**
             * Format: date-time
             * @description When the page last responded
             */
            lastSeenAt: string;
        };
        HubTool: {
            /** @description Name to call the tool by; a connector’s tools are named `<connector>.<tool>` */
            name: string;
            /** @description Display name of the tool, written by the page: untrusted text */
            title?: string;
            /** @description What the tool does, written by the page: untrusted text */
            description: string;
            /** @description JSON Schema of the arguments, written by the page */
            inputSchema: {
                [key: string]: unknown;
            };
            /** @description Hints from the page or the tool server about what the tool does. They are claims, not guarantees. */
            annotations?: {
                /** @description Display name of the tool */
                title?: string;
                /** @description The tool changes nothing */
                readOnlyHint?: boolean;
                /** @description The tool may delete or overwrite something */
                destructiveHint?: boolean;
                /** @description Calling the tool again with the same arguments has no further effect */
                idempotentHint?: boolean;
                /** @description The tool reaches systems outside the page or server */
                openWorldHint?: boolean;
                /** @description The tool has effects beyond the page, such as a purchase */
                consequentialHint?: boolean;
                /** @description The result may contain text written by third parties */
                untrustedContentHint?: boolean;
            };
            /** @description Open pages that offer the tool; only with `include_sources` */
            sources?: components["schemas"]["HubSource"][];
        };
        IdentityProviderConfig: {
            /** @description Vendor of the identity provider; null if not set */
            idp_type: ("okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc") | null;
            /** @description Client IDs that ID tokens can be issued for; null if not set */
            allowed_audiences: string[] | null;
            /** @description Your tenant at the provider; null if not set */
            idp_domain: string | null;
            /** @description Issuer URL of a `custom_oidc` provider; null if not set */
            idp_issuer: string | null;
            /** @description Origins that can embed the widget with any key that doesn’t have its own origins */
            allowed_domains: string[];
        };
        IdentityProviderTest: {
            /** @description Whether the provider can be used */
            success: boolean;
            /** @description Issuer that ID tokens must have; null on failure */
            issuer: string | null;
            /** @description URL of the provider’s signing keys; null on failure */
            jwks_uri: string | null;
            /** @description Why the test failed; null on success */
            error: string | null;
        };
        IdpNotConfiguredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "IDP_NOT_CONFIGURED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 403;
            /**
             * @description Human-readable explanation
             * @default The organization has no identity provider yet
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "IDP_NOT_CONFIGURED";
            };
        };
        InternalError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "INTERNAL_SERVER_ERROR";
            /**
             * @description HTTP status
             * @constant
             */
            status: 500;
            /**
             * @description Human-readable explanation
             * @default An Inlay error occurred
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "INTERNAL_ERROR";
            };
        };
        InvalidBodyError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "INVALID_BODY";
            /**
             * @description HTTP status
             * @constant
             */
            status: 400;
            /**
             * @description Human-readable explanation
             * @default The request body is missing or malformed
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "INVALID_BODY";
                /** @description Name of the invalid field; empty for the whole body */
                field: string;
                /** @description Why the field is invalid */
                details: string;
            };
        };
        InvalidKeyError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "INVALID_KEY";
            /**
             * @description HTTP status
             * @constant
             */
            status: 401;
            /**
             * @description Human-readable explanation
             * @default The publishable key is not valid
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "INVALID_KEY";
            };
        };
        InvalidTokenError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "INVALID_TOKEN";
            /**
             * @description HTTP status
             * @constant
             */
            status: 401;
            /**
             * @description Human-readable explanation
             * @default The ID token could not be verified
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "INVALID_TOKEN";
            };
        };
        Invitation: {
            /** @description ID of the invitation; use it to withdraw the invitation */
            id: string;
            /** @description Email address of the invited user */
            email: string;
            /**
             * @description Role that the user gets on accepting
             * @enum {string}
             */
            role: "admin" | "member";
            /** @description Email address of the admin who created the invitation */
            invited_by: string;
            /** @description Page where the invited user, signed in with this address, accepts or declines; send them this link */
            url: string;
            /**
             * Format: date-time
             * @description When the invitation was created
             */
            created_at: string;
        };
        Member: {
            /** @description ID of the membership; use it to change the role or to remove the member */
            id: string;
            /**
             * @description `admin` can change settings and manage members; `member` can read them and use the organization’s tools
             * @enum {string}
             */
            role: "admin" | "member";
            /**
             * Format: date-time
             * @description When the user joined the organization
             */
            created_at: string;
            /** @description Profile of the user */
            user: {
                /** @description ID of the user, the same in every organization */
                id: string;
                /** @description Email address that the user signs in with */
                email: string;
                /** @description Display name of the user */
                name: string;
                /** @description URL of the profile picture; empty if the user has none */
                avatar_url: string;
                /**
                 * Format: date-time
                 * @description When the account was created
                 */
                created_at: string;
                /**
                 * Format: date-time
                 * @description When the profile was last changed
                 */
                updated_at: string;
            };
        };
        MyInvitation: {
            /** @description ID of the invitation; use it to accept or decline */
            id: string;
            /** @description Organization that you are invited to */
            organization: {
                /** @description ID of the organization */
                id: string;
                /** @description Display name of the organization */
                name: string;
                /** @description Short name of the organization; unlike the display name, it is unique */
                slug: string;
            };
            /**
             * @description Role that you get on accepting
             * @enum {string}
             */
            role: "admin" | "member";
            /** @description Email address of the admin who invited you */
            invited_by: string;
            /**
             * Format: date-time
             * @description When the invitation was created
             */
            created_at: string;
        };
        OrgContextRequiredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "ORG_CONTEXT_REQUIRED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 403;
            /**
             * @description Human-readable explanation
             * @default Organization context required
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "ORG_CONTEXT_REQUIRED";
            };
        };
        Organization: {
            /** @description ID of the organization */
            id: string;
            /** @description Display name; not unique */
            name: string;
            /** @description Short unique name, made from the display name, for use in URLs */
            slug: string;
            /** @description URL of the organization’s picture; empty if it has none */
            avatar_url: string;
            /**
             * @description Your own role in the organization
             * @enum {string}
             */
            role: "admin" | "member";
            /**
             * Format: date-time
             * @description When the organization was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the organization was last changed
             */
            updated_at: string;
        };
        OriginNotAllowedError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "ORIGIN_NOT_ALLOWED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 403;
            /**
             * @description Human-readable explanation
             * @default This origin may not use the publishable key
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "ORIGIN_NOT_ALLOWED";
            };
        };
        PaymentRequiredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "PAYMENT_REQUIRED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 403;
            /**
             * @description Human-readable explanation
             * @default Subscription required
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "PAYMENT_REQUIRED";
            };
        };
        Plan: {
            /** @description ID of the plan, such as `free`, `team` or `enterprise` */
            id: string;
            /** @description Display name */
            name: string;
            /** @description What the plan is for */
            description: string;
            /** @description Features that the plan includes */
            features: components["schemas"]["PlanFeatures"];
            /** @description Limits of the plan */
            limits: components["schemas"]["PlanLimits"];
            /**
             * Format: date-time
             * @description When the plan was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the plan was last changed
             */
            updated_at: string;
        };
        PlanFeatures: {
            /** @description Single sign-on for the organization’s members */
            sso: boolean;
            /** @description Directories that send users and groups over SCIM */
            scim: boolean;
            /** @description The audit trail */
            audit_logs: boolean;
            /** @description Custom domains */
            custom_domains: boolean;
            /** @description Whether more end users are available */
            end_users: boolean;
            /** @description Whether more seats are available */
            seats: boolean;
        };
        PlanInfo: {
            /** @description The organization’s plan */
            plan: {
                /** @description ID of the plan */
                id: string;
                /** @description Display name of the plan */
                name: string;
                /** @description What the plan is for */
                description: string;
            };
            /** @description Features that the plan includes; returned if `include` is `features` or `all` */
            features?: components["schemas"]["PlanFeatures"];
            /** @description Limits of the plan; omitted if `include` is `basic` */
            limits?: components["schemas"]["PlanLimits"];
            /** @description How much of the plan is used; returned if `include` is `usage` or `all` */
            usage?: {
                /** @description Number of members and open invitations */
                seats_used: number;
                /** @description Number of end users */
                end_users_used: number;
            };
        };
        /** @description 0 means unlimited */
        PlanLimits: {
            /** @description Members and open invitations; 0 means unlimited */
            seats: number;
            /** @description End users; 0 means unlimited */
            end_users: number;
            /** @description Allowed origins; 0 means unlimited */
            sites: number;
            /** @description Active skills; 0 means unlimited */
            skills: number;
        };
        Profile: {
            /** @description ID of the user */
            id: string;
            /** @description Email address that the user signed in with */
            email: string;
            /** @description Display name */
            name: string;
            /** @description URL of the profile picture; empty if the user has none */
            avatar_url: string;
            /** @description Organizations that the user is a member of */
            organizations: {
                /** @description ID of the organization */
                id: string;
                /** @description Name of the organization */
                name: string;
                /** @description Short unique name of the organization, for use in URLs */
                slug: string;
                /**
                 * @description The user’s role in this organization
                 * @enum {string}
                 */
                role: "admin" | "member";
            }[];
        };
        PublishableKey: {
            /** @description ID of the key; also the user ID of anonymous visitors */
            id: string;
            /** @description Name to distinguish your keys */
            name: string;
            /** @description First 12 characters of the key, for display */
            key_prefix: string;
            /** @description Origins where the key can be used; if empty, the organization’s allowed domains apply */
            allowed_origins: string[];
            /** @description Whether an admin can see the full key again */
            can_reveal: boolean;
            /** @description When the key was revoked; null if it’s active */
            revoked_at: string | null;
            /** @description When a ticket was last issued for the key; null if never */
            last_used_at: string | null;
            /**
             * Format: date-time
             * @description When the key was created
             */
            created_at: string;
        };
        Refusal: {
            /** @description ID of the refusal */
            id: string;
            /**
             * @description What was refused: a widget’s connection (`ticket`), a user’s ID token (`id_token`), a directory’s request (`scim`), or a call to a connector (`delegated_identity`)
             * @enum {string}
             */
            surface: "ticket" | "id_token" | "scim" | "delegated_identity";
            /** @description Name of the check that failed */
            step: string;
            /** @description Error code that the caller received */
            code: string;
            /** @description What is wrong and how to fix it */
            message: string;
            /** @description What would have passed the check; null if unknown */
            expected: string | null;
            /** @description What was sent instead, without secrets; null if unknown */
            seen: string | null;
            /** @description Origin of the page; null if the request had none */
            origin: string | null;
            /** @description ID of the publishable key; null if none was used */
            publishable_key_id: string | null;
            /** @description Number of times this happened */
            count: number;
            /**
             * Format: date-time
             * @description When it first happened
             */
            first_at: string;
            /**
             * Format: date-time
             * @description When it last happened
             */
            last_at: string;
        };
        ResourceNotFoundError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "NOT_FOUND";
            /**
             * @description HTTP status
             * @constant
             */
            status: 404;
            /**
             * @description Human-readable explanation
             * @default Resource not found
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "RESOURCE_NOT_FOUND";
                /** @description Type of the resource, such as `publishable_key` */
                resource: string;
                /** @description ID that wasn’t found */
                resourceId: string;
            };
        };
        SavedSkill: {
            /** @description ID of the skill, or the `location` of a built-in skill */
            id: string;
            /** @description Name from the frontmatter, NFKC-normalized */
            name: string;
            /** @description When an agent should use the skill, from the frontmatter */
            description: string;
            /** @description Everything after the frontmatter, unchanged */
            body: string;
            /** @description The whole SKILL.md, unchanged */
            content: string;
            /** @description License from the frontmatter; null if not set */
            license: string | null;
            /** @description Runtime requirements from the frontmatter; null if not set */
            compatibility: string | null;
            /** @description Tool names from the frontmatter, separated by spaces; null if not set */
            allowed_tools: string | null;
            /** @description Key-value pairs from the frontmatter; null if not set. Numbers and booleans keep their type, but a number that JSON would write differently, such as `1.10`, becomes a string. */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @description Hostnames where the skill is available; `["*"]` means everywhere */
            domains: string[];
            /** @description Address of a built-in skill, such as `builtin://skill-creator-webmcp`; null for your own skills */
            location: string | null;
            /** @description Version number; starts at 1 and increases by 1 with every change */
            version: number;
            /** @description Estimated size of the body in an agent’s context: its bytes divided by four */
            tokens: number;
            /**
             * Format: date-time
             * @description When the skill was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the skill was last changed
             */
            updated_at: string;
            /** @description When the skill was archived; null while it is active */
            archived_at: string | null;
            /** @description Frontmatter fields that Inlay doesn’t recognize but keeps; omitted if there are none */
            warnings?: string[];
        };
        Site: {
            /** @description ID of the site; usage and threads refer to it */
            id: string;
            /** @description Origin as an admin allowed it; a wildcard such as `https://*.example.com` is one site */
            origin: string;
            /** @description Display name */
            name: string;
            /**
             * Format: date-time
             * @description When the origin was first allowed
             */
            created_at: string;
            /** @description When the widget was last used there; null if never */
            last_seen_at: string | null;
        };
        SiteUsage: {
            /** @description ID of the site; null for usage that doesn’t belong to a site */
            site_id: string | null;
            /** @description Origin of the site; null for usage that doesn’t belong to a site */
            origin: string | null;
            /** @description Number of requests to a model */
            total_requests: number;
            /** @description Tokens sent to the model */
            total_prompt_tokens: number;
            /** @description Tokens that the model generated */
            total_completion_tokens: number;
            /** @description Prompt and completion tokens together */
            total_tokens: number;
        };
        Skill: {
            /** @description ID of the skill, or the `location` of a built-in skill */
            id: string;
            /** @description Name from the frontmatter, NFKC-normalized */
            name: string;
            /** @description When an agent should use the skill, from the frontmatter */
            description: string;
            /** @description Everything after the frontmatter, unchanged */
            body: string;
            /** @description The whole SKILL.md, unchanged */
            content: string;
            /** @description License from the frontmatter; null if not set */
            license: string | null;
            /** @description Runtime requirements from the frontmatter; null if not set */
            compatibility: string | null;
            /** @description Tool names from the frontmatter, separated by spaces; null if not set */
            allowed_tools: string | null;
            /** @description Key-value pairs from the frontmatter; null if not set. Numbers and booleans keep their type, but a number that JSON would write differently, such as `1.10`, becomes a string. */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @description Hostnames where the skill is available; `["*"]` means everywhere */
            domains: string[];
            /** @description Address of a built-in skill, such as `builtin://skill-creator-webmcp`; null for your own skills */
            location: string | null;
            /** @description Version number; starts at 1 and increases by 1 with every change */
            version: number;
            /** @description Estimated size of the body in an agent’s context: its bytes divided by four */
            tokens: number;
            /**
             * Format: date-time
             * @description When the skill was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the skill was last changed
             */
            updated_at: string;
            /** @description When the skill was archived; null while it is active */
            archived_at: string | null;
        };
        SkillPatchOperation: {
            /**
             * @description Replaces text
             * @constant
             */
            type: "replace";
            /** @description Text to find */
            before: string;
            /** @description Replacement text; an empty string deletes the match */
            after: string;
            /**
             * @description Exact number of times the text must occur
             * @default 1
             */
            expected_matches: number;
        } | {
            /**
             * @description Inserts text
             * @constant
             */
            type: "insert";
            /** @description Text to find */
            anchor: string;
            /** @description Text to insert */
            text: string;
            /**
             * @description Whether to insert before or after the anchor
             * @default after
             * @enum {string}
             */
            position: "before" | "after";
            /**
             * @description Exact number of times the text must occur
             * @default 1
             */
            expected_matches: number;
        } | {
            /**
             * @description Deletes text
             * @constant
             */
            type: "delete";
            /** @description Text to find and delete */
            before: string;
            /**
             * @description Exact number of times the text must occur
             * @default 1
             */
            expected_matches: number;
        };
        SkillSummary: {
            /** @description ID of the skill, or the `location` of a built-in skill */
            id: string;
            /** @description Name from the frontmatter */
            name: string;
            /** @description When an agent should use the skill */
            description: string;
        };
        SkillVersion: {
            /** @description Version number */
            version: number;
            /** @description Email address of the user who created this version */
            created_by: string;
            /**
             * Format: date-time
             * @description When this version was created
             */
            created_at: string;
        };
        Subscription: {
            /** @description ID of the subscription at the billing provider */
            id: string;
            /**
             * @description Status of the subscription, as reported by the billing provider
             * @enum {string}
             */
            status: "incomplete" | "incomplete_expired" | "trialing" | "active" | "past_due" | "canceled" | "unpaid" | "paused";
            /** @description ID of the plan that the subscription pays for */
            plan_id: string;
            /** @description ID of the product at the billing provider */
            product_id: string;
            /** @description ID of the customer at the billing provider */
            customer_id: string;
            /** @description When the period that is paid for ends; null if the provider doesn’t say */
            current_period_end: string | null;
            /** @description When the subscription ends; null if it renews */
            cancel_at: string | null;
            /**
             * Format: date-time
             * @description When the subscription was created
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the subscription was last changed
             */
            updated_at: string;
        };
        SubscriptionStatus: {
            /** @description Whether the organization has a subscription in any state */
            has_subscription: boolean;
            /** @description Whether the subscription is `active` or `trialing` */
            is_active: boolean;
            /**
             * @description State of the subscription; `none` without one
             * @enum {string}
             */
            status: "incomplete" | "incomplete_expired" | "trialing" | "active" | "past_due" | "canceled" | "unpaid" | "paused" | "none";
            /** @description ID of the plan of the subscription; without one, the plan that the organization is on */
            plan_id: string;
            /** @description When the period that is paid for ends; null without a subscription, or if the provider doesn’t say */
            current_period_end: string | null;
            /** @description When the subscription ends; null if it renews */
            cancel_at: string | null;
        };
        Thread: {
            /** @description ID of the thread */
            id: string;
            /** @description ID of the end user; null for an anonymous visitor */
            end_user_id: string | null;
            /** @description ID of the site where the thread started; null if it didn’t start on a site */
            site_id: string | null;
            /** @description Title; null until one is set */
            title: string | null;
            /**
             * @description `regular`, `archived`, or `deleted`
             * @enum {string}
             */
            status: "regular" | "archived" | "deleted";
            /** @description Number of messages */
            message_count: number;
            /** @description Prompt and completion tokens of all messages */
            total_tokens: number;
            /** @description When the last message was sent; null if the thread has no messages yet */
            last_message_at: string | null;
            /**
             * Format: date-time
             * @description When the thread was started
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the thread was last changed
             */
            updated_at: string;
        };
        ThreadAnalytics: {
            /** @description Number of threads */
            total_threads: number;
            /** @description Number of messages in these threads */
            total_messages: number;
            /** @description Prompt and completion tokens of all messages */
            total_tokens: number;
            /** @description Number of threads with the status `regular` */
            active_threads: number;
            /** @description Number of threads with the status `archived` */
            archived_threads: number;
        };
        ThreadList: {
            /** @description Threads on this page of the list */
            threads: components["schemas"]["Thread"][];
            /** @description Total number of matching threads */
            total: number;
        };
        Ticket: {
            /** @description Opens one connection; send it as the subprotocol `inlay.ticket.<ticket>` */
            ticket: string;
            /** @description ID of the end user; without an ID token, the ID of the publishable key */
            userId: string;
            /** @description ID of the organization that the key belongs to */
            orgId: string;
            /** @description When the ticket expires, in milliseconds since the Unix epoch */
            expiresAt: number;
            /** @description Seconds until the ticket expires */
            expiresIn: number;
        };
        TokenExpiredError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "TOKEN_EXPIRED";
            /**
             * @description HTTP status
             * @constant
             */
            status: 401;
            /**
             * @description Human-readable explanation
             * @default The ID token has expired
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "TOKEN_EXPIRED";
            };
        };
        ToolCall: {
            /** @description ID of the call. The page and the governance provider get the same ID. */
            id: string;
            /**
             * Format: date-time
             * @description When the call started
             */
            at: string;
            /** @description ID of the user who called the tool */
            user_id: string;
            /** @description Email address of that user at the time of the call */
            user_email: string;
            /** @description ID of the OAuth client; null if the token wasn’t issued to one */
            client_id: string | null;
            /** @description Name of the client at the time of the call; null if it has none */
            client_name: string | null;
            /** @description Where the tool was found; null if it wasn’t found */
            source_type: ("page" | "connector") | null;
            /** @description Origin of the page or name of the connector; null if the tool wasn’t found */
            source: string | null;
            /** @description Name of the tool; a connector’s tools are named `<connector>.<tool>` */
            tool: string;
            /** @description SHA-256 of the tool’s definition; null for a connector’s tool that ran without asking the user */
            definition_hash: string | null;
            /** @description Keyed hash of the arguments. Equal arguments have equal hashes within an organization. */
            arguments_hash: string;
            /**
             * @description The user’s decision about the call, as reported by their browser. `not_needed`: the user wasn’t asked. `allowed`, `declined`: the user was asked. `always_allowed`: the user has a permission for this definition of the tool. `unknown`: the call ended before the user answered or was asked.
             * @enum {string}
             */
            approval: "not_needed" | "allowed" | "always_allowed" | "declined" | "unknown";
            /** @description When the user allowed or declined the call; null if they did neither */
            approval_at: string | null;
            /**
             * @description Decision of the governance provider: `refused` before the tool ran, `result_refused` after it ran, `none` if no provider was asked
             * @enum {string}
             */
            governance: "none" | "allowed" | "refused" | "result_refused";
            /**
             * @description How the call ended. `tool_error`: the tool ran and reported an error. `failed`: the tool returned no result.
             * @enum {string}
             */
            outcome: "succeeded" | "tool_error" | "failed" | "refused" | "cancelled" | "timed_out";
            /** @description Why the call has no result; null if the tool returned one */
            failure_code: string | null;
            /** @description Duration of the call, in milliseconds */
            duration_ms: number;
        };
        ToolCallContents: {
            /** @description ID of the call */
            id: string;
            /** @description The arguments as JSON */
            arguments: string;
            /** @description The result as JSON; null if the call has no result */
            result: string | null;
            /**
             * Format: date-time
             * @description When the contents are deleted
             */
            expires_at: string;
        };
        ToolCallSettings: {
            /** @description How many days to keep the arguments and results of tool calls. 0, the default, keeps none. */
            contents_days: number;
        };
        UndefinedError: {
            /**
             * @description False: this error is not documented for the operation
             * @constant
             */
            defined: false;
            /** @description Type of the error */
            code: string;
            /** @description HTTP status */
            status: number;
            /** @description Human-readable explanation */
            message: string;
            /** @description Details of the error, if there are any */
            data?: unknown;
        };
        UsageEvent: {
            /** @description ID of the usage event */
            id: string;
            /** @description ID of the end user */
            end_user_id: string;
            /** @description ID of the site; null for usage that doesn’t belong to a site */
            site_id: string | null;
            /** @description Tokens sent to the model */
            prompt_tokens: number;
            /** @description Tokens that the model generated */
            completion_tokens: number;
            /** @description Prompt and completion tokens together */
            total_tokens: number;
            /** @description Name of the model */
            model: string;
            /** @description Why the model stopped, as its provider reports it, such as `stop` or `length` */
            finish_reason: string;
            /**
             * Format: date-time
             * @description When the response was complete
             */
            created_at: string;
        };
        UsageTotals: {
            /** @description Number of requests to a model */
            total_requests: number;
            /** @description Tokens sent to the model */
            total_prompt_tokens: number;
            /** @description Tokens that the model generated */
            total_completion_tokens: number;
            /** @description Prompt and completion tokens together */
            total_tokens: number;
        };
        ValidationError: {
            /**
             * @description True: this error is documented
             * @constant
             */
            defined: true;
            /**
             * @description Type of the error
             * @constant
             */
            code: "BAD_REQUEST";
            /**
             * @description HTTP status
             * @constant
             */
            status: 400;
            /**
             * @description Human-readable explanation
             * @default Invalid request data
             */
            message: string;
            /** @description Details of the error */
            data: {
                /**
                 * @description The code to handle in your program
                 * @constant
                 */
                code: "VALIDATION_ERROR";
                /** @description Dotted path of the invalid field; empty for the whole body */
                field: string;
                /** @description Why the field is invalid */
                details: string;
            };
        };
        Warning: {
            /**
             * @description `KEY_ALLOWS_ANY_ORIGIN`: the key works on any website
             * @enum {string}
             */
            code: "KEY_ALLOWS_ANY_ORIGIN";
            /** @description What is wrong and what to change */
            message: string;
            /** @description ID of the publishable key */
            publishable_key_id: string;
            /** @description Where the key was used recently: a sample of at most 20 origins per organization */
            origins: {
                /** @description Origin that used the key */
                origin: string;
                /** @description Number of times it was used there */
                count: number;
                /**
                 * Format: date-time
                 * @description When it was first used there
                 */
                first_at: string;
                /**
                 * Format: date-time
                 * @description When it was last used there
                 */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10a1",
                     *       "email": "ada@example.com",
                     *       "name": "Ada Lovelace",
                     *       "avatar_url": "",
                     *       "organizations": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *           "name": "Acme",
                     *           "slug": "acme",
                     *           "role": "admin"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Profile"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *         "name": "Acme",
                     *         "slug": "acme",
                     *         "avatar_url": "",
                     *         "role": "admin",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "updated_at": "2026-11-14T16:05:12.480Z"
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["Organization"][];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Acme"
                 *     }
                 */
                "application/json": {
                    /** @description Display name, 1 to 100 characters */
                    name: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "name": "Acme",
                     *       "slug": "acme",
                     *       "avatar_url": "",
                     *       "role": "admin",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Slug of the organization */
                slug: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "name": "Acme",
                     *       "slug": "acme",
                     *       "avatar_url": "",
                     *       "role": "admin",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *         "role": "admin",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "user": {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10a1",
                     *           "email": "ada@example.com",
                     *           "name": "Ada Lovelace",
                     *           "avatar_url": "",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["Member"][];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "role": "member"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description New role of the member
                     * @enum {string}
                     */
                    role: "admin" | "member";
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "role": "member",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "user": {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10a1",
                     *         "email": "ada@example.com",
                     *         "name": "Ada Lovelace",
                     *         "avatar_url": "",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "updated_at": "2026-11-14T16:05:12.480Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Member"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *         "email": "grace@example.com",
                     *         "role": "member",
                     *         "invited_by": "ada@example.com",
                     *         "url": "https://inlay.example.com/invitations",
                     *         "created_at": "2026-11-02T09:30:00.000Z"
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["Invitation"][];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "email": "grace@example.com",
                 *       "role": "member"
                 *     }
                 */
                "application/json": {
                    /**
                     * Format: email
                     * @description Email address to invite; stored in lower case
                     */
                    email: string;
                    /**
                     * @description Role that the user gets on accepting
                     * @enum {string}
                     */
                    role: "admin" | "member";
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "email": "grace@example.com",
                     *       "role": "member",
                     *       "invited_by": "ada@example.com",
                     *       "url": "https://inlay.example.com/invitations",
                     *       "created_at": "2026-11-02T09:30:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Invitation"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *         "organization": {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *           "name": "Acme",
                     *           "slug": "acme"
                     *         },
                     *         "role": "member",
                     *         "invited_by": "ada@example.com",
                     *         "created_at": "2026-11-02T09:30:00.000Z"
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["MyInvitation"][];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "name": "Acme",
                     *       "slug": "acme",
                     *       "avatar_url": "",
                     *       "role": "admin",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Organization"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "keys": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *           "name": "Shop",
                     *           "key_prefix": "pk_live_7Qm2",
                     *           "allowed_origins": [
                     *             "https://app.example.com"
                     *           ],
                     *           "can_reveal": true,
                     *           "revoked_at": null,
                     *           "last_used_at": "2026-11-14T16:05:12.480Z",
                     *           "created_at": "2026-11-02T09:30:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description The keys, without the full key */
                        keys: components["schemas"]["PublishableKey"][];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Shop",
                 *       "allowed_origins": [
                 *         "https://app.example.com"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description Name to distinguish your keys, 1 to 100 characters */
                    name: string;
                    /**
                     * @description Origins where the key can be used, such as `https://app.example.com` or `https://*.example.com`; at most 20. If empty, the organization’s allowed domains apply.
                     * @default []
                     */
                    allowed_origins?: string[];
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *       "name": "Shop",
                     *       "key_prefix": "pk_live_7Qm2",
                     *       "allowed_origins": [
                     *         "https://app.example.com"
                     *       ],
                     *       "can_reveal": true,
                     *       "revoked_at": null,
                     *       "last_used_at": null,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "key": "pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedPublishableKey"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *       "name": "Shop",
                     *       "key_prefix": "pk_live_7Qm2",
                     *       "allowed_origins": [
                     *         "https://app.example.com"
                     *       ],
                     *       "can_reveal": true,
                     *       "revoked_at": "2026-11-14T16:05:12.480Z",
                     *       "last_used_at": "2026-11-14T16:05:12.480Z",
                     *       "created_at": "2026-11-02T09:30:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["PublishableKey"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "name": "Shop",
                 *       "allowed_origins": [
                 *         "https://app.example.com"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description New name, 1 to 100 characters */
                    name?: string;
                    /** @description New list of origins; replaces the old list */
                    allowed_origins?: string[];
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *       "name": "Shop",
                     *       "key_prefix": "pk_live_7Qm2",
                     *       "allowed_origins": [
                     *         "https://app.example.com"
                     *       ],
                     *       "can_reveal": true,
                     *       "revoked_at": null,
                     *       "last_used_at": "2026-11-14T16:05:12.480Z",
                     *       "created_at": "2026-11-02T09:30:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["PublishableKey"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "key": "pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz"
                     *     }
                     */
                    "application/json": {
                        /** @description The full key */
                        key: string;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "publishable_key": "pk_live_7Qm2ZtR4x9LkV1bN8cYwF3hJ6sDpA0eGuT5iXoMfKrW2yBz",
                 *       "id_token": "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiIwMHUxIn0.c2lnbmF0dXJl",
                 *       "embedding_origin": "https://app.example.com"
                 *     }
                 */
                "application/json": {
                    /** @description The organization’s publishable key */
                    publishable_key: string;
                    /** @description ID token of the signed-in user, from the organization’s identity provider, up to 16 KiB; omit it for an anonymous visitor */
                    id_token?: string;
                    /** @description Origin of the page that embeds the widget. Only used if the `Origin` header is missing or is Inlay’s own, as in the widget’s frame. */
                    embedding_origin?: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "ticket": "tk_EXAMPLE",
                     *       "userId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *       "orgId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "expiresAt": 1794672060000,
                     *       "expiresIn": 60
                     *     }
                     */
                    "application/json": components["schemas"]["Ticket"];
                };
            };
            /** @description `INVALID_BODY`: The request body is missing or malformed. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InvalidBodyError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INVALID_KEY`: The publishable key is not valid. `INVALID_TOKEN`: The ID token could not be verified. `TOKEN_EXPIRED`: The ID token has expired. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InvalidKeyError"] | components["schemas"]["InvalidTokenError"] | components["schemas"]["TokenExpiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. `ORIGIN_NOT_ALLOWED`: This origin may not use the publishable key. `IDP_NOT_CONFIGURED`: The organization has no identity provider yet. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PaymentRequiredError"] | components["schemas"]["OriginNotAllowedError"] | components["schemas"]["IdpNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "idp_type": "okta",
                     *       "allowed_audiences": [
                     *         "0oa1b2c3d4EXAMPLE"
                     *       ],
                     *       "idp_domain": "acme.okta.com",
                     *       "idp_issuer": null,
                     *       "allowed_domains": [
                     *         "https://app.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["IdentityProviderConfig"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "idp_type": "okta",
                 *       "idp_domain": "acme.okta.com",
                 *       "allowed_audiences": [
                 *         "0oa1b2c3d4EXAMPLE"
                 *       ],
                 *       "allowed_domains": [
                 *         "https://app.example.com"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description Vendor of the identity provider, or `custom_oidc` for any other OpenID provider. `idp_vendor_1` to `idp_vendor_8` are aliases for the eight vendors, in this order: `okta`, `azure` (Entra ID), `auth0`, `google`, `workos`, `firebase`, `onelogin`, `logto`. Requests can use either name; responses always use the vendor’s name. */
                    idp_type?: ("okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc" | "idp_vendor_1" | "idp_vendor_2" | "idp_vendor_3" | "idp_vendor_4" | "idp_vendor_5" | "idp_vendor_6" | "idp_vendor_7" | "idp_vendor_8") | null;
                    /** @description Client IDs of your application at the identity provider, compared with the token’s `aud`. Required in production; in development, null accepts any audience. For Firebase, defaults to the project ID. */
                    allowed_audiences?: string[] | null;
                    /** @description Your tenant at the provider: `acme.okta.com`, an Entra tenant ID, `acme.us.auth0.com`, a WorkOS client ID, a Firebase project ID, `acme.onelogin.com`, `acme.logto.app`. Optional for Google, where it limits sign-in to that Workspace domain. */
                    idp_domain?: string | null;
                    /** @description Issuer URL of a `custom_oidc` provider, exactly as in its discovery document; `https` in production */
                    idp_issuer?: string | null;
                    /** @description Origins that can embed the widget, such as `https://app.example.com`; replaces the old list */
                    allowed_domains?: string[];
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "idp_type": "okta",
                     *       "allowed_audiences": [
                     *         "0oa1b2c3d4EXAMPLE"
                     *       ],
                     *       "idp_domain": "acme.okta.com",
                     *       "idp_issuer": null,
                     *       "allowed_domains": [
                     *         "https://app.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["IdentityProviderConfig"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "idp_type": "okta",
                 *       "idp_domain": "acme.okta.com"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description Vendor of the identity provider, or `custom_oidc` for any other OpenID provider. `idp_vendor_1` to `idp_vendor_8` are aliases for the eight vendors, in this order: `okta`, `azure` (Entra ID), `auth0`, `google`, `workos`, `firebase`, `onelogin`, `logto`. Requests can use either name; responses always use the vendor’s name.
                     * @enum {string}
                     */
                    idp_type: "okta" | "azure" | "auth0" | "google" | "workos" | "firebase" | "onelogin" | "logto" | "custom_oidc" | "idp_vendor_1" | "idp_vendor_2" | "idp_vendor_3" | "idp_vendor_4" | "idp_vendor_5" | "idp_vendor_6" | "idp_vendor_7" | "idp_vendor_8";
                    /** @description Your tenant at the provider: `acme.okta.com`, an Entra tenant ID, `acme.us.auth0.com`, a WorkOS client ID, a Firebase project ID, `acme.onelogin.com`, `acme.logto.app`. Optional for Google, where it limits sign-in to that Workspace domain. */
                    idp_domain?: string | null;
                    /** @description Issuer URL of a `custom_oidc` provider, exactly as in its discovery document; `https` in production */
                    idp_issuer?: string | null;
                    /** @description Client IDs of your application at the identity provider, compared with the token’s `aud`. Required in production; in development, null accepts any audience. For Firebase, defaults to the project ID. */
                    allowed_audiences?: string[] | null;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true,
                     *       "issuer": "https://acme.okta.com",
                     *       "jwks_uri": "https://acme.okta.com/oauth2/v1/keys",
                     *       "error": null
                     *     }
                     */
                    "application/json": components["schemas"]["IdentityProviderTest"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "allowed_domains": [
                     *         "https://app.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description Origins that can embed the widget */
                        allowed_domains: string[];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "allowed_domains": [
                 *         "https://app.example.com"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description Complete new list of origins, such as `https://app.example.com` or `https://*.example.com`; at most 100 */
                    allowed_domains: string[];
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "allowed_domains": [
                     *         "https://app.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description The new list, in canonical form and without duplicates */
                        allowed_domains: string[];
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *         "origin": "https://app.example.com",
                     *         "name": "app.example.com",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "last_seen_at": "2026-11-14T16:05:12.480Z"
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["Site"][];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "users": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *           "organization_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *           "external_id": "00u1a2b3c4EXAMPLE",
                     *           "email": "ada@example.com",
                     *           "metadata": "{\"name\":\"Ada Lovelace\",\"email_verified\":true}",
                     *           "last_activity_at": "2026-11-14T16:05:12.480Z",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description The end users of this page of the list */
                        users: components["schemas"]["EndUser"][];
                        /** @description Number of end users in the organization */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *       "organization_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "external_id": "00u1a2b3c4EXAMPLE",
                     *       "email": "ada@example.com",
                     *       "metadata": "{\"name\":\"Ada Lovelace\",\"email_verified\":true}",
                     *       "last_activity_at": "2026-11-14T16:05:12.480Z",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["EndUser"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "effective_status": "active",
                     *       "reason": "The governance provider checks every tool call.",
                     *       "config": {
                     *         "provider_key": "byo",
                     *         "interceptor_url": "https://policies.example.com/decide",
                     *         "interceptor_name": "Acme policies",
                     *         "api_key_last4": "4f2a",
                     *         "has_api_key": true,
                     *         "is_enabled": true,
                     *         "last_test_status": "success",
                     *         "last_test_message": "The interceptor let the sample call pass.",
                     *         "last_test_at": "2026-11-14T16:05:12.480Z",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "updated_at": "2026-11-14T16:05:12.480Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "effective_status": "bypassed",
                     *       "reason": "No governance provider is configured, so tool calls aren’t checked.",
                     *       "config": null
                     *     }
                     */
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "provider_key": "byo",
                 *       "interceptor_url": "https://policies.example.com/decide",
                 *       "interceptor_name": "Acme policies",
                 *       "api_key": "gk_EXAMPLE_4f2a",
                 *       "is_enabled": true
                 *     }
                 */
                "application/json": {
                    /**
                     * @description `byo` for your own interceptor, `vendor_default` for the vendor’s
                     * @enum {string}
                     */
                    provider_key?: "vendor_default" | "byo";
                    /**
                     * Format: uri
                     * @description HTTPS URL of the interceptor, which Inlay asks about each tool call
                     */
                    interceptor_url?: string;
                    /** @description Name of the interceptor, 1 to 200 characters */
                    interceptor_name?: string;
                    /** @description API key for the interceptor, 8 to 2000 characters. It’s stored encrypted and never returned. */
                    api_key?: string;
                    /** @description Whether the provider checks tool calls */
                    is_enabled?: boolean;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "effective_status": "active",
                     *       "reason": "The governance provider checks every tool call.",
                     *       "config": {
                     *         "provider_key": "byo",
                     *         "interceptor_url": "https://policies.example.com/decide",
                     *         "interceptor_name": "Acme policies",
                     *         "api_key_last4": "4f2a",
                     *         "has_api_key": true,
                     *         "is_enabled": true,
                     *         "last_test_status": "success",
                     *         "last_test_message": "The interceptor let the sample call pass.",
                     *         "last_test_at": "2026-11-14T16:05:12.480Z",
                     *         "created_at": "2026-11-02T09:30:00.000Z",
                     *         "updated_at": "2026-11-14T16:05:12.480Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["GovernanceProvider"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "provider_key": "byo",
                 *       "interceptor_url": "https://policies.example.com/decide",
                 *       "interceptor_name": "Acme policies",
                 *       "api_key": "gk_EXAMPLE_4f2a"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description `byo` for your own interceptor, `vendor_default` for the vendor’s
                     * @enum {string}
                     */
                    provider_key?: "vendor_default" | "byo";
                    /**
                     * Format: uri
                     * @description HTTPS URL of the interceptor, which Inlay asks about each tool call
                     */
                    interceptor_url?: string;
                    /** @description Name of the interceptor, 1 to 200 characters */
                    interceptor_name?: string;
                    /** @description API key for the interceptor, 8 to 2000 characters. It’s stored encrypted and never returned. */
                    api_key?: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "provider_key": "byo",
                     *       "interceptor_url": "https://policies.example.com/decide",
                     *       "interceptor_name": "Acme policies",
                     *       "status": "success",
                     *       "message": "The interceptor let the sample call pass.",
                     *       "violations": [],
                     *       "latency_ms": 84
                     *     }
                     */
                    "application/json": components["schemas"]["GovernanceTest"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "plans": [
                     *         {
                     *           "id": "team",
                     *           "name": "Team",
                     *           "description": "For growing teams",
                     *           "features": {
                     *             "sso": true,
                     *             "scim": false,
                     *             "audit_logs": false,
                     *             "custom_domains": false,
                     *             "end_users": true,
                     *             "seats": true
                     *           },
                     *           "limits": {
                     *             "seats": 25,
                     *             "end_users": 5000,
                     *             "sites": 10,
                     *             "skills": 200
                     *           },
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "count": 1
                     *     }
                     */
                    "application/json": {
                        /** @description The plans */
                        plans: components["schemas"]["Plan"][];
                        /** @description Number of plans */
                        count: number;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description What to return: `basic` is the plan alone, `features` adds features and limits, `usage` adds limits and usage, `all` is everything */
                include?: "basic" | "features" | "usage" | "all";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "plan": {
                     *         "id": "team",
                     *         "name": "Team",
                     *         "description": "For growing teams"
                     *       },
                     *       "features": {
                     *         "sso": true,
                     *         "scim": false,
                     *         "audit_logs": false,
                     *         "custom_domains": false,
                     *         "end_users": true,
                     *         "seats": true
                     *       },
                     *       "limits": {
                     *         "seats": 25,
                     *         "end_users": 5000,
                     *         "sites": 10,
                     *         "skills": 200
                     *       },
                     *       "usage": {
                     *         "seats_used": 8,
                     *         "end_users_used": 1280
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["PlanInfo"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "feature": "seats"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description Feature to check
                     * @enum {string}
                     */
                    feature: "sso" | "scim" | "audit_logs" | "custom_domains" | "end_users" | "seats";
                    /** @description For `seats` and `end_users`: the number to compare with the limit, instead of the organization’s current usage */
                    current_usage?: number;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "feature": "seats",
                     *       "allowed": true,
                     *       "reason": null
                     *     }
                     */
                    "application/json": {
                        /**
                         * @description Feature that was checked
                         * @enum {string}
                         */
                        feature: "sso" | "scim" | "audit_logs" | "custom_domains" | "end_users" | "seats";
                        /** @description Whether the plan allows it */
                        allowed: boolean;
                        /** @description Why it isn’t allowed; null if it is */
                        reason: string | null;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "sub_EXAMPLE",
                     *       "status": "active",
                     *       "plan_id": "team",
                     *       "product_id": "prod_EXAMPLE",
                     *       "customer_id": "cus_EXAMPLE",
                     *       "current_period_end": "2026-12-01T00:00:00.000Z",
                     *       "cancel_at": null,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Subscription"] | null;
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "has_subscription": true,
                     *       "is_active": true,
                     *       "status": "active",
                     *       "plan_id": "team",
                     *       "current_period_end": "2026-12-01T00:00:00.000Z",
                     *       "cancel_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["SubscriptionStatus"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID that the plan’s product has at the billing provider */
                product_id: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /** @example https://billing.example.com/checkout?product=prod_EXAMPLE&customerExternalId=019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2 */
                    "application/json": string;
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. `BILLING_NOT_CONFIGURED`: This installation has no billing provider. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /** @example https://billing.example.com/portal */
                    "application/json": string;
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `BILLING_NOT_CONFIGURED`: This installation has no billing provider. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "synced": 1,
                     *       "deleted": 0
                     *     }
                     */
                    "application/json": {
                        /** @description Number of subscriptions that the provider has */
                        synced: number;
                        /** @description Number of subscriptions that the provider no longer has */
                        deleted: number;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `BILLING_NOT_CONFIGURED`: This installation has no billing provider. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BillingNotConfiguredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "count": 1,
                     *       "sources": [
                     *         {
                     *           "sourceId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1007",
                     *           "tabId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1008",
                     *           "origin": "https://app.example.com",
                     *           "title": "Paper & Pen",
                     *           "url": "https://app.example.com/cart",
                     *           "toolCount": 3,
                     *           "connectedAt": "2026-11-14T16:05:12.480Z",
                     *           "lastSeenAt": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description Number of open pages */
                        count: number;
                        /** @description The open pages */
                        sources: components["schemas"]["HubSource"][];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Only tools whose name or description contains this text */
                search?: string;
                /** @description Only tools of this open page */
                source_id?: string;
                /** @description Whether to list the pages that offer each tool */
                include_sources?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "count": 1,
                     *       "tools": [
                     *         {
                     *           "name": "add_to_cart",
                     *           "title": "Where is my order?",
                     *           "description": "Adds a product to the cart of the user who has this page open.",
                     *           "inputSchema": {
                     *             "type": "object",
                     *             "properties": {
                     *               "product_id": {
                     *                 "type": "string"
                     *               }
                     *             },
                     *             "required": [
                     *               "product_id"
                     *             ]
                     *           },
                     *           "annotations": {
                     *             "title": "Where is my order?",
                     *             "readOnlyHint": true,
                     *             "destructiveHint": true,
                     *             "idempotentHint": true,
                     *             "openWorldHint": true,
                     *             "consequentialHint": true,
                     *             "untrustedContentHint": true
                     *           },
                     *           "sources": [
                     *             {
                     *               "sourceId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1007",
                     *               "tabId": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1008",
                     *               "origin": "https://app.example.com",
                     *               "title": "Paper & Pen",
                     *               "url": "https://app.example.com/cart",
                     *               "toolCount": 3,
                     *               "connectedAt": "2026-11-14T16:05:12.480Z",
                     *               "lastSeenAt": "2026-11-14T16:05:12.480Z"
                     *             }
                     *           ]
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description Number of tools */
                        count: number;
                        /** @description The tools */
                        tools: components["schemas"]["HubTool"][];
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
    listToolCalls: {
        parameters: {
            query?: {
                /** @description Maximum number of calls per page */
                limit?: number;
                /** @description The `next_cursor` of the previous page */
                cursor?: string;
                /** @description Only calls by this user */
                user_id?: string;
                /** @description Only calls to the tool with this name */
                tool?: string;
                /** @description Only calls with this outcome */
                outcome?: "succeeded" | "tool_error" | "failed" | "refused" | "cancelled" | "timed_out";
                /** @description Only calls at or after this date or time */
                start_date?: string;
                /** @description Only calls at or before this date or time; a date includes the whole day */
                end_date?: string;
                /** @description Format of the response */
                format?: "json" | "csv" | "jsonl";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "tool_calls": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "at": "2026-11-14T16:05:12.480Z",
                     *           "user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1002",
                     *           "user_email": "ada@example.com",
                     *           "client_id": "dcr_EXAMPLE",
                     *           "client_name": "Claude",
                     *           "source_type": "page",
                     *           "source": "https://shop.example.com",
                     *           "tool": "add_to_cart",
                     *           "definition_hash": "9a3e0c1f5bEXAMPLE",
                     *           "arguments_hash": "q1kX0nJm2Vb8wPzEXAMPLE",
                     *           "approval": "allowed",
                     *           "approval_at": "2026-11-14T16:05:14.120Z",
                     *           "governance": "allowed",
                     *           "outcome": "succeeded",
                     *           "failure_code": null,
                     *           "duration_ms": 1840
                     *         }
                     *       ],
                     *       "next_cursor": null
                     *     }
                     */
                    "application/json": {
                        /** @description The calls, newest first */
                        tool_calls: components["schemas"]["ToolCall"][];
                        /** @description Cursor of the next page; null on the last page */
                        next_cursor: string | null;
                    };
                    "text/csv": string;
                    "application/jsonl": string;
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
    getToolCallSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "contents_days": 30
                     *     }
                     */
                    "application/json": components["schemas"]["ToolCallSettings"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
    updateToolCallSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "contents_days": 30
                 *     }
                 */
                "application/json": components["schemas"]["ToolCallSettings"];
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "contents_days": 30
                     *     }
                     */
                    "application/json": components["schemas"]["ToolCallSettings"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
    getToolCallContents: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "arguments": "{\"product_id\":\"ink-blue\"}",
                     *       "result": "{\"content\":[{\"type\":\"text\",\"text\":\"Added\"}],\"isError\":false}",
                     *       "expires_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["ToolCallContents"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "connectors": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "name": "orders",
                     *           "kind": "id_jag",
                     *           "server_url": "https://tools.example.com/mcp",
                     *           "client_id": "inlay-hub",
                     *           "client_secret_last4": "9d1c",
                     *           "idp_client_id": null,
                     *           "idp_client_secret_last4": null,
                     *           "scopes": [
                     *             "mcp:tools:read",
                     *             "mcp:tools:call"
                     *           ],
                     *           "audience_mode": "resource",
                     *           "read_only_tools": [
                     *             "text"
                     *           ],
                     *           "status": "active",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description The connectors */
                        connectors: components["schemas"]["Connector"][];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "orders",
                 *       "kind": "id_jag",
                 *       "server_url": "https://tools.example.com/mcp",
                 *       "client_id": "inlay-hub",
                 *       "client_secret": "cs_EXAMPLE_9d1c"
                 *     }
                 */
                "application/json": {
                    /** @description Prefix of the tools’ names: 1 to 32 lowercase letters, digits and hyphens */
                    name: string;
                    /**
                     * @description `id_jag` for your own tool servers, `oauth` for third-party servers
                     * @enum {string}
                     */
                    kind: "id_jag" | "oauth";
                    /**
                     * Format: uri
                     * @description MCP endpoint of the tool server; can’t be changed later
                     */
                    server_url: string;
                    /** @description Inlay’s client ID at the tool server; required for `id_jag` */
                    client_id?: string;
                    /** @description Secret of that client, 8 to 2000 characters; required for `id_jag`. It is stored encrypted and never returned. */
                    client_secret?: string;
                    /** @description Inlay’s client ID at your identity provider, if it differs from `client_id`; only for `id_jag` */
                    idp_client_id?: string;
                    /** @description Secret of that client; required with `idp_client_id` */
                    idp_client_secret?: string;
                    /** @description Scopes to request. Default for `id_jag`: `mcp:tools:read` and `mcp:tools:call`. */
                    scopes?: string[];
                    /**
                     * @description Audience of the assertion: the server’s resource ID (`resource`), or the issuer of its tokens (`issuer`)
                     * @default resource
                     * @enum {string}
                     */
                    audience_mode?: "resource" | "issuer";
                    /** @description Tools to mark as read-only, by their names at the server. They run without asking the user. Default: none. */
                    read_only_tools?: string[];
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "orders",
                     *       "kind": "id_jag",
                     *       "server_url": "https://tools.example.com/mcp",
                     *       "client_id": "inlay-hub",
                     *       "client_secret_last4": "9d1c",
                     *       "idp_client_id": null,
                     *       "idp_client_secret_last4": null,
                     *       "scopes": [
                     *         "mcp:tools:read",
                     *         "mcp:tools:call"
                     *       ],
                     *       "audience_mode": "resource",
                     *       "read_only_tools": [
                     *         "text"
                     *       ],
                     *       "status": "active",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "orders",
                     *       "kind": "id_jag",
                     *       "server_url": "https://tools.example.com/mcp",
                     *       "client_id": "inlay-hub",
                     *       "client_secret_last4": "9d1c",
                     *       "idp_client_id": null,
                     *       "idp_client_secret_last4": null,
                     *       "scopes": [
                     *         "mcp:tools:read",
                     *         "mcp:tools:call"
                     *       ],
                     *       "audience_mode": "resource",
                     *       "read_only_tools": [
                     *         "text"
                     *       ],
                     *       "status": "active",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "scopes": [
                 *         "mcp:tools:read"
                 *       ]
                 *     }
                 */
                "application/json": {
                    /** @description New prefix of the tools’ names */
                    name?: string;
                    /** @description New secret of the client at the tool server */
                    client_secret?: string;
                    /** @description New secret of the client at the identity provider; only if the connector has an `idp_client_id` */
                    idp_client_secret?: string;
                    /** @description New scopes, which replace the current list */
                    scopes?: string[];
                    /**
                     * @description Audience of the assertion
                     * @enum {string}
                     */
                    audience_mode?: "resource" | "issuer";
                    /** @description Tools to mark as read-only, by their names at the server, which replace the current list */
                    read_only_tools?: string[];
                    /**
                     * @description Tools of a `disabled` connector can’t be called
                     * @enum {string}
                     */
                    status?: "active" | "disabled";
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "orders",
                     *       "kind": "id_jag",
                     *       "server_url": "https://tools.example.com/mcp",
                     *       "client_id": "inlay-hub",
                     *       "client_secret_last4": "9d1c",
                     *       "idp_client_id": null,
                     *       "idp_client_secret_last4": null,
                     *       "scopes": [
                     *         "mcp:tools:read"
                     *       ],
                     *       "audience_mode": "resource",
                     *       "read_only_tools": [
                     *         "text"
                     *       ],
                     *       "status": "active",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Connector"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true,
                     *       "steps": [
                     *         {
                     *           "step": "metadata",
                     *           "status": "ok",
                     *           "message": "The server accepts tokens of https://tools.example.com."
                     *         },
                     *         {
                     *           "step": "provider_exchange",
                     *           "status": "ok",
                     *           "message": "The identity provider issued an assertion."
                     *         },
                     *         {
                     *           "step": "redemption",
                     *           "status": "ok",
                     *           "message": "The server issued an access token."
                     *         },
                     *         {
                     *           "step": "tools_list",
                     *           "status": "ok",
                     *           "message": "The server offers 12 tools."
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ConnectorTest"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "limit": 100,
                 *       "offset": 0,
                 *       "query": "refund"
                 *     }
                 */
                "application/json": {
                    /**
                     * @description Maximum number of skills to return
                     * @default 100
                     */
                    limit?: number;
                    /**
                     * @description Number of skills to skip from the start of the list
                     * @default 0
                     */
                    offset?: number;
                    /**
                     * @description Return only skills whose name or description contains this text, ignoring case
                     * @default
                     */
                    query?: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *         "name": "refund-policy",
                     *         "description": "Use when a customer asks for a refund."
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["SkillSummary"][];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n"
                 *     }
                 */
                "application/json": {
                    /** @description The whole SKILL.md, at most 256 KiB */
                    content: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "refund-policy",
                     *       "description": "Use when a customer asks for a refund.",
                     *       "body": "\nRefund orders up to 30 days after delivery.\n",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n",
                     *       "license": null,
                     *       "compatibility": null,
                     *       "allowed_tools": null,
                     *       "metadata": null,
                     *       "domains": [
                     *         "*"
                     *       ],
                     *       "location": null,
                     *       "version": 1,
                     *       "tokens": 11,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "archived_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID of the skill, or the `location` of a built-in skill */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "refund-policy",
                     *       "description": "Use when a customer asks for a refund.",
                     *       "body": "\nRefund orders up to 30 days after delivery.\n",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n",
                     *       "license": null,
                     *       "compatibility": null,
                     *       "allowed_tools": null,
                     *       "metadata": null,
                     *       "domains": [
                     *         "*"
                     *       ],
                     *       "location": null,
                     *       "version": 3,
                     *       "tokens": 11,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "archived_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["Skill"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID of the skill, or the `location` of a built-in skill */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "refund-policy",
                     *       "description": "Use when a customer asks for a refund.",
                     *       "body": "\nRefund orders up to 30 days after delivery.\n",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n",
                     *       "license": null,
                     *       "compatibility": null,
                     *       "allowed_tools": null,
                     *       "metadata": null,
                     *       "domains": [
                     *         "*"
                     *       ],
                     *       "location": null,
                     *       "version": 3,
                     *       "tokens": 11,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "archived_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Skill"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID of the skill, or the `location` of a built-in skill */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "patch": {
                 *         "version": 1,
                 *         "operations": [
                 *           {
                 *             "type": "replace",
                 *             "before": "30 days",
                 *             "after": "60 days"
                 *           }
                 *         ]
                 *       },
                 *       "expected_version": 3
                 *     }
                 */
                "application/json": {
                    /** @description Changes to the text */
                    patch?: {
                        /**
                         * @description Version of the patch format
                         * @constant
                         */
                        version: 1;
                        /** @description Changes in the order to apply them, 1 to 50 */
                        operations: components["schemas"]["SkillPatchOperation"][];
                    };
                    /** @description New list of hostnames where the skill is available; `["*"]` means everywhere */
                    domains?: string[];
                    /** @description Version that your edit is based on; if the skill has changed since, the response is a 409 and nothing changes */
                    expected_version?: number;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "refund-policy",
                     *       "description": "Use when a customer asks for a refund.",
                     *       "body": "\nRefund orders up to 60 days after delivery.\n",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 60 days after delivery.\n",
                     *       "license": null,
                     *       "compatibility": null,
                     *       "allowed_tools": null,
                     *       "metadata": null,
                     *       "domains": [
                     *         "*"
                     *       ],
                     *       "location": null,
                     *       "version": 4,
                     *       "tokens": 11,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "archived_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "versions": [
                     *         {
                     *           "version": 3,
                     *           "created_by": "ada@example.com",
                     *           "created_at": "2026-11-02T09:30:00.000Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Versions on this page of the list */
                        versions: components["schemas"]["SkillVersion"][];
                        /** @description Total number of versions */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
                /** @description Version number */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "version": 3,
                     *       "created_by": "ada@example.com",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n",
                     *       "domains": [
                     *         "*"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FullSkillVersion"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description ID of the skill, or the `location` of a built-in skill */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "version": 2
                 *     }
                 */
                "application/json": {
                    /** @description Version to restore */
                    version: number;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "refund-policy",
                     *       "description": "Use when a customer asks for a refund.",
                     *       "body": "\nRefund orders up to 30 days after delivery.\n",
                     *       "content": "---\nname: refund-policy\ndescription: Use when a customer asks for a refund.\n---\n\nRefund orders up to 30 days after delivery.\n",
                     *       "license": null,
                     *       "compatibility": null,
                     *       "allowed_tools": null,
                     *       "metadata": null,
                     *       "domains": [
                     *         "*"
                     *       ],
                     *       "location": null,
                     *       "version": 4,
                     *       "tokens": 11,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "archived_at": null
                     *     }
                     */
                    "application/json": components["schemas"]["SavedSkill"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "refusals": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "surface": "id_token",
                     *           "step": "audience",
                     *           "code": "INVALID_TOKEN",
                     *           "message": "The token is for another application; add its client ID to the allowed audiences",
                     *           "expected": "0oa1b2c3d4EXAMPLE",
                     *           "seen": "0oa9z8y7x6EXAMPLE",
                     *           "origin": "https://app.example.com",
                     *           "publishable_key_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *           "count": 1,
                     *           "first_at": "2026-11-14T16:05:12.480Z",
                     *           "last_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Refusals on this page of the list */
                        refusals: components["schemas"]["Refusal"][];
                        /** @description Total number of refusals */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "warnings": [
                     *         {
                     *           "code": "KEY_ALLOWS_ANY_ORIGIN",
                     *           "message": "The key “Shop” works on any website. Set its allowed origins.",
                     *           "publishable_key_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *           "origins": [
                     *             {
                     *               "origin": "https://app.example.com",
                     *               "count": 1,
                     *               "first_at": "2026-11-14T16:05:12.480Z",
                     *               "last_at": "2026-11-14T16:05:12.480Z"
                     *             }
                     *           ]
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description Current warnings */
                        warnings: components["schemas"]["Warning"][];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "configured": true,
                     *       "github_org_name": "acme",
                     *       "app_id": 123456,
                     *       "app_slug": "inlay-acme",
                     *       "app_url": "https://github.com/apps/inlay-acme",
                     *       "repository": "acme/skills",
                     *       "created_at": "2026-11-02T09:30:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["GithubApp"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true,
                     *       "repo_disconnected": true
                     *     }
                     */
                    "application/json": components["schemas"]["GithubAppRemoval"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /**
                 * @example {
                 *       "github_org_name": "acme"
                 *     }
                 */
                "application/json": {
                    /** @description GitHub organization that will own the app */
                    github_org_name: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true,
                     *       "github_org_name": "acme",
                     *       "registration_url": "https://github.com/organizations/acme/settings/apps/new?state=EXAMPLE",
                     *       "manifest": "{\"name\":\"inlay-acme-4f2a9c\",\"public\":false}"
                     *     }
                     */
                    "application/json": components["schemas"]["GithubAppManifestStart"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Return only usage on this site */
                site_id?: string;
                /** @description First UTC day, as a date or a time on that day. Default: 29 days before `end_date`, for a range of 30 days. */
                start_date?: string;
                /** @description Last UTC day, inclusive, as a date or a time on that day. Default: today. */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example [
                     *       {
                     *         "date": "2026-11-14",
                     *         "total_requests": 12,
                     *         "total_tokens": 18250
                     *       }
                     *     ]
                     */
                    "application/json": components["schemas"]["DailyUsage"][];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Return only usage on this site */
                site_id?: string;
                /** @description First UTC day, as a date or a time on that day. Default: 29 days before `end_date`, for a range of 30 days. */
                start_date?: string;
                /** @description Last UTC day, inclusive, as a date or a time on that day. Default: today. */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "total_requests": 12,
                     *       "total_prompt_tokens": 15200,
                     *       "total_completion_tokens": 3050,
                     *       "total_tokens": 18250
                     *     }
                     */
                    "application/json": components["schemas"]["UsageTotals"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
                /** @description First UTC day, as a date or a time on that day. Default: 29 days before `end_date`, for a range of 30 days. */
                start_date?: string;
                /** @description Last UTC day, inclusive, as a date or a time on that day. Default: today. */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "sites": [
                     *         {
                     *           "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *           "origin": "https://app.example.com",
                     *           "total_requests": 12,
                     *           "total_prompt_tokens": 15200,
                     *           "total_completion_tokens": 3050,
                     *           "total_tokens": 18250
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Totals per site */
                        sites: components["schemas"]["SiteUsage"][];
                        /** @description Number of sites with usage in the range */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
                /** @description First UTC day, as a date or a time on that day. Default: 29 days before `end_date`, for a range of 30 days. */
                start_date?: string;
                /** @description Last UTC day, inclusive, as a date or a time on that day. Default: today. */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "users": [
                     *         {
                     *           "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *           "external_id": "00u1a2b3c4EXAMPLE",
                     *           "email": "ada@example.com",
                     *           "total_requests": 12,
                     *           "total_prompt_tokens": 15200,
                     *           "total_completion_tokens": 3050,
                     *           "total_tokens": 18250
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Totals per end user */
                        users: components["schemas"]["EndUserUsage"][];
                        /** @description Number of end users with usage in the range */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID of the end user */
                end_user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "total_requests": 12,
                     *       "total_prompt_tokens": 15200,
                     *       "total_completion_tokens": 3050,
                     *       "total_tokens": 18250
                     *     }
                     */
                    "application/json": components["schemas"]["UsageTotals"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description ID of the end user */
                end_user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *           "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *           "prompt_tokens": 1520,
                     *           "completion_tokens": 310,
                     *           "total_tokens": 1830,
                     *           "model": "gpt-5-mini",
                     *           "finish_reason": "stop",
                     *           "created_at": "2026-11-02T09:30:00.000Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Usage events on this page of the list */
                        events: components["schemas"]["UsageEvent"][];
                        /** @description Total number of usage events of the end user */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
                /** @description Return only threads with this status. Default: all except deleted ones. */
                status?: "regular" | "archived" | "deleted";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "threads": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6",
                     *           "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *           "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *           "title": "Where is my order?",
                     *           "status": "regular",
                     *           "message_count": 6,
                     *           "total_tokens": 18250,
                     *           "last_message_at": "2026-11-14T16:05:12.480Z",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": components["schemas"]["ThreadList"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of threads to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
                /** @description Return only threads with this status. Default: all except deleted ones. */
                status?: "regular" | "archived" | "deleted";
            };
            header?: never;
            path: {
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "threads": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6",
                     *           "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *           "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *           "title": "Where is my order?",
                     *           "status": "regular",
                     *           "message_count": 6,
                     *           "total_tokens": 18250,
                     *           "last_message_at": "2026-11-14T16:05:12.480Z",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": components["schemas"]["ThreadList"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "total_threads": 42,
                     *       "total_messages": 260,
                     *       "total_tokens": 18250,
                     *       "active_threads": 40,
                     *       "archived_threads": 2
                     *     }
                     */
                    "application/json": components["schemas"]["ThreadAnalytics"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6",
                     *       "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *       "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *       "title": "Where is my order?",
                     *       "status": "regular",
                     *       "message_count": 6,
                     *       "total_tokens": 18250,
                     *       "last_message_at": "2026-11-14T16:05:12.480Z",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "title": "Where is my order?",
                 *       "status": "archived"
                 *     }
                 */
                "application/json": {
                    /** @description New title, 1 to 200 characters */
                    title?: string;
                    /**
                     * @description New status
                     * @enum {string}
                     */
                    status?: "regular" | "archived" | "deleted";
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10f6",
                     *       "end_user_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10e5",
                     *       "site_id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10d4",
                     *       "title": "Where is my order?",
                     *       "status": "archived",
                     *       "message_count": 6,
                     *       "total_tokens": 18250,
                     *       "last_message_at": "2026-11-14T16:05:12.480Z",
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Thread"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "has_directory": true,
                     *       "has_active_directory": true,
                     *       "directory_count": 1,
                     *       "active_directory": {
                     *         "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *         "name": "Acme",
                     *         "type": "okta",
                     *         "domain": "acme.example",
                     *         "user_count": 36,
                     *         "group_count": 4
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["DirectoryStatus"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "directories": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "name": "Acme",
                     *           "type": "okta",
                     *           "domain": "acme.example",
                     *           "status": "active",
                     *           "scim_base_url": "https://inlay.example.com/scim/v2/019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *           "user_count": 36,
                     *           "group_count": 4,
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": {
                        /** @description The directories */
                        directories: components["schemas"]["Directory"][];
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Makes retries safe. Send a unique value, such as a UUID, for each resource that you create. For 24 hours, a request with the same key and the same input returns the first response, with the header `Idempotent-Replayed: true`, and creates nothing. The same key with a different input returns a 422 `IDEMPOTENCY_KEY_REUSED`. While the first request is in progress, or if its outcome is unknown, the key returns a 409 `IDEMPOTENCY_KEY_IN_USE`. A request that was rejected doesn’t use up its key. Keys are separate for each caller, organization and operation. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Acme",
                 *       "type": "okta",
                 *       "domain": "acme.example"
                 *     }
                 */
                "application/json": {
                    /** @description Name that tells your directories apart, 1 to 100 characters */
                    name: string;
                    /**
                     * @description Product that sends the users; `generic` for any other SCIM client
                     * @enum {string}
                     */
                    type: "okta" | "azure" | "google" | "onelogin" | "generic";
                    /** @description Domain of the email addresses in the directory, such as `acme.example` */
                    domain: string;
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "Acme",
                     *       "type": "okta",
                     *       "domain": "acme.example",
                     *       "status": "active",
                     *       "scim_base_url": "https://inlay.example.com/scim/v2/019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "user_count": 0,
                     *       "group_count": 0,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z",
                     *       "bearer_token": "scim_EXAMPLE"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedDirectory"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "Acme",
                     *       "type": "okta",
                     *       "domain": "acme.example",
                     *       "status": "active",
                     *       "scim_base_url": "https://inlay.example.com/scim/v2/019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "user_count": 36,
                     *       "group_count": 4,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Directory"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true
                     *     }
                     */
                    "application/json": {
                        /** @description Always true; failures return an error response instead */
                        success: boolean;
                    };
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "name": "Acme",
                 *       "type": "okta",
                 *       "domain": "acme.example",
                 *       "status": "active"
                 *     }
                 */
                "application/json": {
                    /** @description New name, 1 to 100 characters */
                    name?: string;
                    /**
                     * @description Product that sends the users
                     * @enum {string}
                     */
                    type?: "okta" | "azure" | "google" | "onelogin" | "generic";
                    /** @description Domain of the email addresses in the directory */
                    domain?: string;
                    /**
                     * @description `active` accepts changes over SCIM; `inactive` rejects them
                     * @enum {string}
                     */
                    status?: "active" | "inactive";
                };
            };
        };
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "name": "Acme",
                     *       "type": "okta",
                     *       "domain": "acme.example",
                     *       "status": "active",
                     *       "scim_base_url": "https://inlay.example.com/scim/v2/019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2",
                     *       "user_count": 36,
                     *       "group_count": 4,
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "updated_at": "2026-11-14T16:05:12.480Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Directory"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. `PAYMENT_REQUIRED`: the plan doesn’t include this, or its limit is reached; `message` says which. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["PaymentRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `DUPLICATE_RESOURCE`: the resource already exists, or conflicts with another one; `data.resource` is its type. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DuplicateResourceError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "users": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "external_id": "00u1a2b3c4EXAMPLE",
                     *           "user_name": "ada@example.com",
                     *           "email": "ada@example.com",
                     *           "name": "Ada Lovelace",
                     *           "active": true,
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Users on this page of the list */
                        users: components["schemas"]["DirectoryUser"][];
                        /** @description Number of users in the directory */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of items to return */
                limit?: number;
                /** @description Number of items to skip from the start of the list */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description ID from the operation that created or listed the resource. An unknown ID, or an ID from another organization, returns a 404. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "groups": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "external_id": "00u1a2b3c4EXAMPLE",
                     *           "display_name": "Support",
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "updated_at": "2026-11-14T16:05:12.480Z"
                     *         }
                     *       ],
                     *       "total": 1
                     *     }
                     */
                    "application/json": {
                        /** @description Groups on this page of the list */
                        groups: components["schemas"]["DirectoryGroup"][];
                        /** @description Number of groups in the directory */
                        total: number;
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `RESOURCE_NOT_FOUND`: the resource doesn’t exist, or belongs to another organization. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
                /** @description Maximum number of events to return */
                limit?: number;
                /** @description The `next_cursor` of the previous page */
                cursor?: string;
                /** @description Return only changes by this actor */
                actor?: string;
                /** @description Return only this action, such as `member.removed` */
                action?: string;
                /** @description Return only changes to this resource */
                target?: string;
                /** @description Return only changes at or after this time; a date means the start of that UTC day */
                start_date?: string;
                /** @description Return only changes up to this time; a date includes that whole UTC day */
                end_date?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *           "sequence": 42,
                     *           "actor": "ada@example.com",
                     *           "action": "publishable_key.created",
                     *           "target": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *           "data": {
                     *             "name": "Shop"
                     *           },
                     *           "created_at": "2026-11-02T09:30:00.000Z",
                     *           "hash": "5f1d7a84e02c4b6d9c3fEXAMPLE"
                     *         }
                     *       ],
                     *       "next_cursor": null,
                     *       "verification": {
                     *         "status": "intact",
                     *         "length": 42,
                     *         "head": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2:42:5f1d7a84e02c4b6d9c3fEXAMPLE",
                     *         "broken_at": null
                     *       }
                     *     }
                     */
                    "application/json": {
                        /** @description Events on this page of the list */
                        events: components["schemas"]["AuditEvent"][];
                        /** @description Cursor of the next page; null on the last page */
                        next_cursor: string | null;
                        /** @description Whether the whole trail is intact */
                        verification: components["schemas"]["AuditVerification"];
                    };
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
    exportAuditEvents: {
        parameters: {
            query?: {
                /** @description Return only events after this one: the `head` of an exported event, or of the list’s `verification` */
                from?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The request succeeded. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c1001",
                     *       "sequence": 42,
                     *       "actor": "ada@example.com",
                     *       "action": "publishable_key.created",
                     *       "target": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10c3",
                     *       "data": {
                     *         "name": "Shop"
                     *       },
                     *       "created_at": "2026-11-02T09:30:00.000Z",
                     *       "hash": "5f1d7a84e02c4b6d9c3fEXAMPLE",
                     *       "head": "019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2:42:5f1d7a84e02c4b6d9c3fEXAMPLE"
                     *     }
                     */
                    "application/jsonl": components["schemas"]["ExportedAuditEvent"];
                };
            };
            /** @description `VALIDATION_ERROR`: a field is missing or invalid; `data.field` names it and `data.details` says why. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUTH_REQUIRED`: the access token is missing, invalid, expired or revoked; sign in again. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `ACCESS_DENIED`: you can’t do this, for example because it needs the admin role; `data.reason` says why. `ORG_CONTEXT_REQUIRED`: the access token has no organization; sign in again and choose one. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDeniedError"] | components["schemas"]["OrgContextRequiredError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `AUDIT_HEAD_NOT_FOUND`: The organization’s audit trail doesn’t contain this head. It belongs to another organization, or events were changed or removed. Ask the operator to run `npx inlay audit verify --from` with it.. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditHeadNotFoundError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description `INTERNAL_ERROR`: something failed in Inlay; try again, and report it if it persists. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InternalError"] | components["schemas"]["UndefinedError"];
                };
            };
            /** @description Any other error, such as 413 for a body that is too large or 503 while the server restarts. */
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
