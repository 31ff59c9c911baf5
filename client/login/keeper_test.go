package login

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/internal/boottime"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// account is an account whose other side answers as a test says, in virtual time.
type account struct {
	mu      sync.Mutex
	ttl     time.Duration
	max     time.Duration // of one token, 0: no end
	batch   bool
	away    bool // it does not answer
	denies  bool // it has forgotten all tokens
	born    time.Time
	logins  int
	renewed []time.Duration // after the login
	checked int
	revoked []structs.Secret
}

func (a *account) state() error {
	switch {
	case a.away:
		return structs.Unavailablef("no answer")
	case a.denies:
		return structs.Errorf(structs.KindDenied, "permission denied")
	}
	return nil
}

func (a *account) token() *Token {
	t := &Token{TTL: a.ttl, Renewable: !a.batch}
	if a.max > 0 {
		t.TTL = min(t.TTL, a.max-time.Since(a.born))
	}
	return t
}

func (a *account) Login(context.Context) (*Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return nil, a.state()
	}
	a.logins++
	a.denies = false
	a.born = time.Now()
	t := a.token()
	t.Secret = structs.Secret(fmt.Sprintf("t%d", a.logins))
	return t, nil
}

func (a *account) Check(context.Context, structs.Secret) (*Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checked++
	return a.token(), a.state()
}

func (a *account) Renew(context.Context, structs.Secret) (*Token, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.renewed = append(a.renewed, time.Since(a.born))
	return a.token(), a.state()
}

func (a *account) Revoke(_ context.Context, s structs.Secret) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked = append(a.revoked, s)
	return a.state()
}

func (a *account) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// suspended is for how long the machine of a test was suspended.
var suspended atomic.Int64

// keeping runs a test with a Keeper that has logged in once, in virtual time.
func keeping(t *testing.T, a *account, forever bool, test func(k *Keeper, s Subject, changed *[]Token)) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeper(hclog.NewNullLogger())
		clock := boottime.Monotonic()
		k.clock = func() boottime.Instant { return clock().Add(time.Duration(suspended.Load())) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			k.Run(ctx)
			close(done)
		}()
		var changed []Token
		s := Subject{Key: "k", Account: a, Forever: forever}
		s.Changed = func(t Token) { changed = append(changed, t) }
		first, err := a.Login(ctx)
		if err != nil {
			t.Fatal(err)
		}
		k.Keep(s, *first)
		test(k, s, &changed)
		cancel()
		<-done
	})
}

func (k *Keeper) secret(key string) structs.Secret {
	s, _, _ := k.Token(key)
	return s
}

func TestKeeper_RenewsATokenAtHalfOfItsLife(t *testing.T) {
	a := &account{ttl: time.Hour}
	keeping(t, a, false, func(k *Keeper, _ Subject, changed *[]Token) {
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if a.logins != 1 || len(*changed) != 0 || len(a.renewed) < 19 || len(a.renewed) > 26 {
			t.Errorf("got %d logins, %d changes, renewals at %v", a.logins, len(*changed), a.renewed)
		}
		if first := a.renewed[0]; first < 24*time.Minute || first > 30*time.Minute {
			t.Errorf("the first renewal is at %v", first)
		}
	})
}

// TestKeeper_RenewsATokenAfterASuspend: the life of a token goes on while the machine is suspended, and
// timers do not.
func TestKeeper_RenewsATokenAfterASuspend(t *testing.T) {
	a := &account{ttl: 10 * time.Hour}
	keeping(t, a, false, func(k *Keeper, _ Subject, _ *[]Token) {
		synctest.Wait()
		suspended.Store(int64(8 * time.Hour))
		defer suspended.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(a.renewed) != 1 {
			t.Errorf("got renewals at %v, want one within a minute", a.renewed)
		}
	})
}

func TestKeeper_LogsInAgainBeforeATokenEnds(t *testing.T) {
	for name, a := range map[string]*account{
		"batch": {ttl: time.Hour, batch: true},
		"max":   {ttl: time.Hour, max: 2 * time.Hour},
	} {
		keeping(t, a, false, func(k *Keeper, _ Subject, changed *[]Token) {
			for range 10 {
				time.Sleep(time.Hour)
				synctest.Wait()
				a.set(func() {
					if left := a.ttl - time.Since(a.born); a.batch && left <= 0 {
						t.Errorf("%s: the token has ended %v ago", name, -left)
					}
					if a.max > 0 && time.Since(a.born) > a.max {
						t.Errorf("%s: the token has ended", name)
					}
				})
			}
			if n := a.logins; n < 4 || len(*changed) != n-1 || k.secret("k") != (*changed)[n-2].Secret {
				t.Errorf("%s: got %d logins, %d changes", name, n, len(*changed))
			}
			// The former tokens are in use until their users have the next one.
			if len(a.revoked) != 0 {
				t.Errorf("%s: revoked %v", name, a.revoked)
			}
		})
	}
}

func TestKeeper_LogsInAgainWhenARenewalIsDenied(t *testing.T) {
	a := &account{ttl: time.Hour}
	keeping(t, a, false, func(k *Keeper, _ Subject, changed *[]Token) {
		_, news, _ := k.Token("k")
		a.set(func() { a.denies = true })
		<-news
		synctest.Wait()
		if a.logins != 2 || len(*changed) != 1 || k.secret("k") != "t2" || time.Since(a.born) != 0 {
			t.Errorf("got %d logins, %v", a.logins, *changed)
		}
	})
}

// TestKeeper_KeepsATokenWhileTheOtherSideIsAway: nothing is known of the token as long as it has not ended.
func TestKeeper_KeepsATokenWhileTheOtherSideIsAway(t *testing.T) {
	a := &account{ttl: time.Hour}
	keeping(t, a, false, func(k *Keeper, _ Subject, changed *[]Token) {
		a.set(func() { a.away = true })
		time.Sleep(50 * time.Minute)
		a.set(func() { a.away = false })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if a.logins != 1 || k.secret("k") != "t1" {
			t.Errorf("got %d logins", a.logins)
		}
		a.set(func() { a.away = true })
		time.Sleep(2 * time.Hour)
		a.set(func() { a.away = false })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if a.logins != 2 || k.secret("k") != "t2" {
			t.Errorf("got %d logins after the end of the token", a.logins)
		}
	})
}

func TestKeeper_GoesOnWithATokenThatItFinds(t *testing.T) {
	for name, c := range map[string]struct {
		found  structs.Secret
		denies bool
		logins int
	}{
		"valid": {"t0", false, 1},
		"ended": {"t0", true, 2},
		"none":  {"", false, 2},
	} {
		a := &account{ttl: time.Hour}
		keeping(t, a, false, func(k *Keeper, s Subject, changed *[]Token) {
			a.set(func() { a.denies = c.denies })
			k.Keep(s, Token{Secret: c.found, TTL: foundTTL, found: true})
			synctest.Wait()
			a.set(func() {
				if a.logins != c.logins || len(*changed) != c.logins-1 || len(a.renewed) != 0 {
					t.Errorf("%s: got %d logins, %v", name, a.logins, *changed)
				}
			})
			time.Sleep(40 * time.Minute)
			synctest.Wait()
			a.set(func() {
				if len(a.renewed) != 1 {
					t.Errorf("%s: got renewals %v", name, a.renewed)
				}
			})
		})
	}
}

func TestKeeper_LeavesATokenThatMayEnd(t *testing.T) {
	a := &account{ttl: time.Hour}
	keeping(t, a, true, func(k *Keeper, _ Subject, changed *[]Token) {
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if a.logins != 1 || len(a.renewed) != 0 || k.secret("k") != "t1" {
			t.Errorf("got %d logins, renewals %v", a.logins, a.renewed)
		}
	})
}

func TestKeeper_RevokesATokenAtTheEnd(t *testing.T) {
	a := &account{ttl: time.Hour}
	keeping(t, a, false, func(k *Keeper, s Subject, _ *[]Token) {
		_, news, _ := k.Token("k")
		k.End(context.Background(), s, "other")
		<-news
		k.End(context.Background(), s, "found")
		k.End(context.Background(), s, "")
		if len(a.revoked) != 2 || a.revoked[0] != "t1" || a.revoked[1] != "found" || k.Has("k") {
			t.Errorf("got %d revocations", len(a.revoked))
		}
		// An other side that is away does not keep an allocation from its end.
		a.set(func() { a.away = true })
		begin := time.Now()
		k.End(context.Background(), s, "late")
		if took := time.Since(begin); took > revokeTimeout || len(a.revoked) < 4 {
			t.Errorf("took %v, %d revocations", took, len(a.revoked))
		}
	})
}
