package endpoints_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/rpc"
	"berth/state/acls"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/login"
)

func TestOneTimeToken_GivesItsTokenOnce(t *testing.T) {
	s := newLoginServer(t)
	secret := managementToken(s.server)
	made := must(s.server, login.OneTimeMake, &login.OneTimeMakeRequest{
		WriteOptions: structs.WriteOptions{AuthToken: secret},
	}).OneTimeToken
	if !made.ExpiresAt.Equal(s.Clock.Add(10 * time.Minute)) {
		t.Errorf("it ends at %s", made.ExpiresAt)
	}
	log := s.Raft.Log.String()
	if strings.Contains(log, secret) || strings.Contains(log, string(made.OneTimeSecretID)) {
		t.Error("the log has a secret")
	}

	exchange := &login.OneTimeExchangeRequest{OneTimeSecretID: made.OneTimeSecretID}
	var given atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := rpc.Call(t.Context(), s.RPC, login.OneTimeExchange, &login.OneTimeExchangeRequest{
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
	rejected(s.server, structs.KindDenied, login.OneTimeExchange, exchange)
	rejected(s.server, structs.KindInvalid, login.OneTimeExchange, &login.OneTimeExchangeRequest{})
}

func TestOneTimeToken_EndsByTimeAndWithItsToken(t *testing.T) {
	s := newLoginServer(t)
	secret := managementToken(s.server)
	make := func() *login.OneTimeExchangeRequest {
		made := must(s.server, login.OneTimeMake, &login.OneTimeMakeRequest{
			WriteOptions: structs.WriteOptions{AuthToken: secret},
		}).OneTimeToken
		return &login.OneTimeExchangeRequest{OneTimeSecretID: made.OneTimeSecretID}
	}
	late := make()
	s.Clock = s.Clock.Add(10 * time.Minute)
	rejected(s.server, structs.KindDenied, login.OneTimeExchange, late)

	orphan := make()
	token := acls.TokenBySecret(s.Store.Read(), secret)
	must(s.server, access.TokenDelete, &access.TokenDeleteRequest{AccessorID: token.AccessorID})
	rejected(s.server, structs.KindDenied, login.OneTimeExchange, orphan)
	rejected(s.server, structs.KindDenied, login.OneTimeMake, &login.OneTimeMakeRequest{
		WriteOptions: structs.WriteOptions{AuthToken: access.Anonymous},
	})
	rejected(s.server, structs.KindPrecondition, login.OneTimeMake, &login.OneTimeMakeRequest{})
}
