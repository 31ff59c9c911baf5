package cluster

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/internal/idtoken"
	"berth/internal/keyring"
	"berth/server/clock"
	"berth/server/control/loop"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/test/oneserver"
)

// testCluster is a leader with a root key, whose loop runs in a bubble of virtual time.
type testCluster struct {
	t *testing.T
	*oneserver.Log
	ring  *keyring.Ring
	roots int
}

func newCluster(t *testing.T) *testCluster {
	return &testCluster{t: t, Log: oneserver.NewLog(), ring: &keyring.Ring{}}
}

func propose[P any](c *testCluster, command fsm.Command[P], payload *P) {
	c.t.Helper()
	oneserver.Put(c.t, c, command, payload)
}

// rotateRoot makes another root key, which this server opens.
func (c *testCluster) rotateRoot() {
	c.t.Helper()
	was := c.ring.Active()
	c.roots++
	id := "root-" + string(rune('0'+c.roots))
	err := c.ring.Add(id, bytes.Repeat([]byte{byte(c.roots)}, keyring.KeySize))
	if err == nil {
		err = c.ring.Use(id)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	propose(c, fsm.RootKeyAdd, &cluster.RootKeyAddRequest{
		KeyID:   id,
		Wrapped: []byte{1},
		KEK:     "kek",
		Digest:  []byte(id),
		Was:     was,
	})
}

// run runs the loop until the end of the test.
func (c *testCluster) run() {
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		SigningKeyLoop{
			Common: loop.Common{
				Store:    c.Store,
				Proposer: c,
				Keys:     c.ring,
				Logger:   hclog.NewNullLogger(),
			},
			RotateAfter: idtoken.DefaultSettings().RotateAfter,
		}.Run(ctx)
	})
	c.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
}

// public is an answer with the public keys, as another party keeps it.
func (c *testCluster) public() map[string]*access.SigningKey {
	keys := map[string]*access.SigningKey{}
	for k := range trust.SigningKeys(c.Store.Read()) {
		keys[k.KeyID] = k
	}
	return keys
}

// token is an identity that the active key of an algorithm signs now, with the longest life.
func (c *testCluster) token(algorithm string) string {
	c.t.Helper()
	key := trust.ActiveSigningKey(c.Store.Read(), algorithm)
	if key == nil {
		c.t.Fatalf("no key of %s signs", algorithm)
	}
	der, err := c.ring.Open(access.SigningKeyPlace(key.KeyID), key.Private)
	if err != nil {
		c.t.Fatal(err)
	}
	signer, err := idtoken.NewSigner(key.KeyID, algorithm, der)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := signer.Sign(&idtoken.Claims{
		Claims: jwt.Claims{
			Audience: jwt.Audience{structs.DefaultAudience},
			Expiry:   jwt.NewNumericDate(time.Now().Add(access.MaxIdentityTTL)),
		},
		AllocID: "a",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// verify verifies a token with an answer that was kept.
func verify(text string, keys map[string]*access.SigningKey) error {
	_, err := idtoken.Verifier{
		Key: func(id string) (string, []byte, bool) {
			k := keys[id]
			if k == nil {
				return "", nil, false
			}
			return k.Algorithm, k.PublicKey, true
		},
		Now: time.Now(),
	}.Verify(text)
	return err
}

// Through two rotations, each token verifies from its signature to its end: with an answer that was kept for
// the whole time that it names, and with a fresh one. The keys that have signed go away in the end.
func TestLoop_RotatesWithoutAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.rotateRoot()
		c.run()
		const tick = 5 * time.Minute
		kept := []map[string]*access.SigningKey{} // by age in ticks, the newest last
		type issued struct {
			text string
			end  time.Time
		}
		var tokens []issued
		signed := map[string]bool{}
		begun := time.Now()
		for time.Since(begun) < 3*24*time.Hour {
			kept = append(kept, c.public())
			oldest := kept[max(0, len(kept)-1-int(access.KeyCacheTime/tick))]
			fresh := kept[len(kept)-1]
			for _, algorithm := range algorithms {
				text := c.token(algorithm)
				signed[trust.ActiveSigningKey(c.Store.Read(), algorithm).KeyID] = true
				err := verify(text, oldest)
				if err != nil {
					t.Fatalf("after %s: a new token of %s with a kept answer: %v", time.Since(begun), algorithm, err)
				}
				if time.Since(begun)%time.Hour == 0 {
					tokens = append(tokens, issued{text, time.Now().Add(access.MaxIdentityTTL)})
				}
			}
			for _, k := range tokens {
				err := verify(k.text, fresh)
				if err != nil {
					t.Fatalf("after %s: a token that ends at %s: %v", time.Since(begun), k.end, err)
				}
			}

			switch time.Since(begun) {
			case 2 * time.Hour, 3 * time.Hour:
				c.rotateRoot()
			}
			time.Sleep(tick)
			synctest.Wait()
			tokens = slices.DeleteFunc(tokens, func(i issued) bool { return !time.Now().Before(i.end) })
		}

		if len(signed) != 3*len(algorithms) {
			t.Errorf("%d keys have signed, want %d", len(signed), 3*len(algorithms))
		}
		if n := len(c.public()); n != len(algorithms) {
			t.Errorf("%d keys are left, want %d", n, len(algorithms))
		}
	})
}

// A key is replaced at its age, also when nothing else changes.
func TestLoop_ReplacesAnOldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.rotateRoot()
		c.run()
		first := trust.ActiveSigningKey(c.Store.Read(), access.KeyEdDSA).KeyID
		age := idtoken.DefaultSettings().RotateAfter + access.KeyPublishTime
		time.Sleep(age - time.Minute)
		synctest.Wait()
		if trust.ActiveSigningKey(c.Store.Read(), access.KeyEdDSA).KeyID != first {
			t.Error("the key was replaced before its time")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if trust.ActiveSigningKey(c.Store.Read(), access.KeyEdDSA).KeyID == first {
			t.Error("the key was not replaced")
		}
	})
}

// Without a root key there are no keys. The first one makes them, also after an entry that could not be
// written.
func TestLoop_WaitsForTheRootKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.run()
		c.rotateRoot()
		c.Fail(structs.Unavailablef("no quorum"))
		time.Sleep(time.Minute)
		c.Fail(nil)
		time.Sleep(2 * signingAfterFault)
		synctest.Wait()
		if len(c.public()) != len(algorithms) {
			t.Error("the keys were not made")
		}
	})
}

// The active root key encrypts the private parts, and no former one.
func TestLoop_WaitsUntilTheRootKeyIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.rotateRoot()
		c.rotateRoot()
		_ = c.ring.Use("root-1")
		c.run()
		if len(c.public()) != 0 {
			t.Error("there is a key that a former root key encrypts")
		}
		_ = c.ring.Use("root-2")
		time.Sleep(2 * signingAfterFault)
		synctest.Wait()
		sealed := 0
		for v := range trust.SealedValues(c.Store.Read()) {
			if v.Value.KeyID == "root-2" {
				sealed++
			}
		}
		if sealed != len(algorithms) {
			t.Errorf("%d keys are encrypted with the active root key, want %d", sealed, len(algorithms))
		}
	})
}

// A wall clock that is ahead removes no key that verifies identities.
func TestLoop_CountsAgesInTheClusterTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.rotateRoot()
		row := &cluster.ClusterTime{Time: time.Now().Add(-1000 * 24 * time.Hour).UnixNano()}
		l := SigningKeyLoop{
			Common: loop.Common{
				Store:    c.Store,
				Proposer: c,
				Keys:     c.ring,
				Clock: clock.New(func() boottime.Instant { return 0 },
					func() *cluster.ClusterTime { return row }),
				Logger: hclog.NewNullLogger(),
			},
			RotateAfter: idtoken.DefaultSettings().RotateAfter,
		}
		for range 2 * len(algorithms) {
			_, err := l.step(t.Context(), &signingUse{})
			if err != nil {
				t.Fatal(err)
			}
		}
		before := c.public()
		_, err := l.step(t.Context(), &signingUse{})
		if err != nil || len(before) != len(algorithms) || len(c.public()) != len(before) {
			t.Errorf("%v; there were %d keys, and are %d", err, len(before), len(c.public()))
		}
		for _, k := range before {
			if k.CreateTime != row.Time {
				t.Errorf("key %s is of %s", k.KeyID, time.Unix(0, k.CreateTime))
			}
		}
	})
}

func TestNext_ActivatesAtOnceWithoutAKeyThatSigns(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := signingRules{now: now, rotateAfter: time.Hour}
	got, _ := r.next([]*access.SigningKey{{
		KeyID:      "k",
		Algorithm:  access.KeyEdDSA,
		State:      access.KeyPublished,
		CreateTime: now.UnixNano(),
	}})
	if got != (signingStep{activate: "k"}) {
		t.Errorf("got %+v", got)
	}
}
