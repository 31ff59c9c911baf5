package endpoints_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

func TestOneTimeToken_GivesItsTokenOnce(t *testing.T) {
	s := newLoginServer(t)
	secret := s.server.ManagementToken()
	made := must(s.server, access.OneTimeMake, &access.OneTimeMakeRequest{
		WriteOptions: structs.WriteOptions{AuthToken: secret},
	}).OneTimeToken
	if !made.ExpiresAt.Equal(s.Clock.Add(10 * time.Minute)) {
		t.Errorf("it ends at %s", made.ExpiresAt)
	}
	log := s.Raft.Text()
	if strings.Contains(log, secret) || strings.Contains(log, string(made.OneTimeSecretID)) {
		t.Error("the log has a secret")
	}

	exchange := &access.OneTimeExchangeRequest{OneTimeSecretID: made.OneTimeSecretID}
	var given atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := rpc.Call(t.Context(), s.RPC, access.OneTimeExchange, &access.OneTimeExchangeRequest{
				OneTimeSecretID: made.OneTimeSecretID,
			})
			if err == nil && got.SecretID == secret && got.Token.AccessorID == made.AccessorID {
				given.Add(1)
			}
		})
	}
	all.Wait()
	if n := given.Load(); n != 1 {
		t.Errorf("the token was given %d times, want once", n)
	}
	rejected(s.server, structs.KindDenied, access.OneTimeExchange, exchange)
	rejected(s.server, structs.KindInvalid, access.OneTimeExchange, &access.OneTimeExchangeRequest{})
}

func TestOneTimeToken_EndsByTimeAndWithItsToken(t *testing.T) {
	s := newLoginServer(t)
	secret := s.server.ManagementToken()
	make := func() *access.OneTimeExchangeRequest {
		made := must(s.server, access.OneTimeMake, &access.OneTimeMakeRequest{
			WriteOptions: structs.WriteOptions{AuthToken: secret},
		}).OneTimeToken
		return &access.OneTimeExchangeRequest{OneTimeSecretID: made.OneTimeSecretID}
	}
	late := make()
	s.Clock = s.Clock.Add(10 * time.Minute)
	rejected(s.server, structs.KindDenied, access.OneTimeExchange, late)

	orphan := make()
	token := state.TokenBySecret(s.Store.Read(), secret)
	must(s.server, access.TokenDelete, &access.TokenDeleteRequest{AccessorID: token.AccessorID})
	rejected(s.server, structs.KindDenied, access.OneTimeExchange, orphan)
	rejected(s.server, structs.KindDenied, access.OneTimeMake, &access.OneTimeMakeRequest{
		WriteOptions: structs.WriteOptions{AuthToken: access.Anonymous},
	})
	rejected(s.server, structs.KindPrecondition, access.OneTimeMake, &access.OneTimeMakeRequest{})
}
