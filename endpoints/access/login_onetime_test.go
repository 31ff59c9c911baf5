package access_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

func TestOneTimeToken_GivesItsTokenOnce(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	secret := s.Server.ManagementToken()
	made := endpointstest.Must(s.Server, access.OneTimeMake, &access.OneTimeMakeRequest{
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
	endpointstest.Rejected(s.Server, structs.KindDenied, access.OneTimeExchange, exchange)
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.OneTimeExchange,
		&access.OneTimeExchangeRequest{})
}

func TestOneTimeToken_EndsByTimeAndWithItsToken(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	secret := s.Server.ManagementToken()
	make := func() *access.OneTimeExchangeRequest {
		made := endpointstest.Must(s.Server, access.OneTimeMake, &access.OneTimeMakeRequest{
			WriteOptions: structs.WriteOptions{AuthToken: secret},
		}).OneTimeToken
		return &access.OneTimeExchangeRequest{OneTimeSecretID: made.OneTimeSecretID}
	}
	late := make()
	s.Clock = s.Clock.Add(10 * time.Minute)
	endpointstest.Rejected(s.Server, structs.KindDenied, access.OneTimeExchange, late)

	orphan := make()
	token := state.TokenBySecret(s.Store.Read(), secret)
	endpointstest.Must(s.Server, access.TokenDelete, &access.TokenDeleteRequest{AccessorID: token.AccessorID})
	endpointstest.Rejected(s.Server, structs.KindDenied, access.OneTimeExchange, orphan)
	endpointstest.Rejected(s.Server, structs.KindDenied, access.OneTimeMake, &access.OneTimeMakeRequest{
		WriteOptions: structs.WriteOptions{AuthToken: access.Anonymous},
	})
	endpointstest.Rejected(s.Server, structs.KindPrecondition, access.OneTimeMake, &access.OneTimeMakeRequest{})
}
