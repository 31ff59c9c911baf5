package login

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/hooks"
	"berth/structs"
	"berth/structs/access"
)

// late are identities of which the servers have signed none yet.
type late struct {
	token   hooks.Token
	changed chan struct{}
}

func (l *late) Token(_, _, _ string) (hooks.Token, bool) { return l.token, l.token.JWT != "" }
func (l *late) Changed() <-chan struct{}                 { return l.changed }

func (l *late) sign(jwt structs.Secret, life time.Duration) {
	l.token = hooks.Token{JWT: jwt, Expires: time.Now().Add(life)}
	old := l.changed
	l.changed = make(chan struct{})
	close(old)
}

func TestAwaitIdentity_WaitsForTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := &late{changed: make(chan struct{})}
		env := &hooks.AllocEnv{Identities: ids}
		got := make(chan structs.Secret, 1)
		go func() {
			jwt, _ := awaitIdentity(t.Context(), env, access.WantedIdentity{Name: "vault_default"})
			got <- jwt
		}()
		for _, life := range []time.Duration{0, -time.Second} {
			synctest.Wait()
			ids.sign("ended", life)
		}
		synctest.Wait()
		ids.sign("newest", time.Minute)
		if jwt := <-got; jwt != "newest" {
			t.Errorf("got %q, want the token that has not ended", string(jwt))
		}
	})
}

func TestAwaitIdentity_EndsWithItsReason(t *testing.T) {
	wanted := access.WantedIdentity{Kind: access.IdentityOfTask, Workload: "web", Name: "vault_default"}
	_, err := awaitIdentity(t.Context(), &hooks.AllocEnv{}, wanted)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a job without identities: got %v, want a failed precondition", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = awaitIdentity(ctx, &hooks.AllocEnv{Identities: &late{changed: make(chan struct{})}}, wanted)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without an answer of the servers: got %v, want unavailable", err)
	}
}
