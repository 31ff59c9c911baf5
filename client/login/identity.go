package login

import (
	"context"
	"time"

	"berth/client/hooks"
	"berth/structs"
	"berth/structs/access"
)

// awaitIdentity returns the newest token of an identity of the allocation. The agent renews it (see package
// identities). After a restart of the agent the servers have to sign it again, and the call waits for them.
func awaitIdentity(ctx context.Context, env *hooks.AllocEnv, w access.WantedIdentity) (
	structs.Secret, error,
) {
	for {
		changed := env.TokensChanged()
		token, ok := env.Token(w.Kind, w.Workload, w.Name)
		if ok && time.Now().Before(token.Expires) {
			return token.JWT, nil
		}
		if changed == nil {
			return "", structs.Preconditionf("%s %q has no identity %q", w.Kind, w.Workload, w.Name)
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return "", structs.Unavailablef("the servers have not signed the identity %q of %s %q: %w",
				w.Name, w.Kind, w.Workload, ctx.Err())
		}
	}
}
