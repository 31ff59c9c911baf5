package identities

import (
	"encoding/base64"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/structs/access"
)

// signedBy answers with tokens without an end, which a key has signed.
func (fx *fixture) signedBy(key string) {
	header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"kid":%q}`, key))
	fx.set(func() {
		fx.answer = func(w access.WantedIdentity, n int) access.SignedIdentity {
			return access.SignedIdentity{WantedIdentity: w, JWT: structs.Secret(fmt.Sprintf("%s.%d.x", header, n))}
		}
	})
}

func (fx *fixture) wantActs(when string, want int) {
	fx.t.Helper()
	time.Sleep(structs.DefaultIdentityTTL)
	synctest.Wait()
	if got := fx.noted(&fx.acts); len(got) != want {
		fx.t.Errorf("%s: got %q, want %d restarts", when, got, want)
	}
}

// A token without an end is replaced in its file like others. The process learns of another one only when
// another key signs, also from a later agent.
func TestChange_OfATokenWithoutAnEndFollowsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, other(structs.DefaultIdentity, func(i *structs.WorkloadIdentity) {
			i.File = true
			i.Env = true
			i.ChangeMode = "restart"
		}))
		fx.signedBy("k1")
		_, task := fx.started()
		first, _ := fx.env.Token("task", "web", structs.DefaultIdentity)
		if !first.Expires.IsZero() {
			t.Errorf("the token ends at %s", first.Expires)
		}
		fx.wantActs("the same key", 0)
		second, _ := fx.env.Token("task", "web", structs.DefaultIdentity)
		if second.JWT == first.JWT {
			t.Error("the token was not replaced")
		}
		fx.checkFile("secrets/nomad_token", string(second.JWT))
		task.Stopped()
		fx.end()

		fx.running = true
		fx.agent()
		defer fx.close()
		_, task = fx.started()
		fx.wantActs("a later agent", 0)
		fx.signedBy("k2")
		fx.wantActs("another key", 1)
		fx.wantActs("the same key again", 1)
		task.Stopped()
	})
}
