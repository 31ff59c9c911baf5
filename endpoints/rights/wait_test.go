package rights_test

import (
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// A read that waits ends when its caller loses the right, however the right ends.
func TestReads_EndWithTheRight(t *testing.T) {
	for name, end := range map[string]func(s *endpointstest.Server, token *access.Token){
		"the token is deleted": func(s *endpointstest.Server, token *access.Token) {
			endpointstest.Must(s, access.TokenDelete, &access.TokenDeleteRequest{AccessorID: token.AccessorID})
		},
		"the policy is deleted": func(s *endpointstest.Server, token *access.Token) {
			endpointstest.Must(s, access.PolicyDelete, &access.PolicyDeleteRequest{Name: token.Policies[0]})
		},
		"the policy gives less": func(s *endpointstest.Server, token *access.Token) {
			endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{Policy: &access.Policy{
				Name: token.Policies[0], Rules: `node { policy = "read" }`,
			}})
		},
	} {
		s := endpointstest.New(t)
		s.Guard()
		secret := s.Token(`namespace "default" { policy = "read" }`)
		token := endpointstest.Must(s, access.TokenGet, &access.TokenGetRequest{
			QueryOptions: structs.QueryOptions{AuthToken: secret},
		}).Token
		index := endpointstest.Must(s, structs.JobList, &structs.QueryRequest{
			QueryOptions: structs.QueryOptions{AuthToken: secret},
		}).Index

		ended := make(chan error, 1)
		go func() {
			_, err := rpc.Call(t.Context(), s.RPC, structs.JobList, &structs.QueryRequest{
				QueryOptions: structs.QueryOptions{AuthToken: secret, MinIndex: index, MaxWait: 20 * time.Second},
			})
			ended <- err
		}()
		end(s, token)
		err := <-ended
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: the read that waited ended with %v, want denied", name, err)
		}
	}
}
