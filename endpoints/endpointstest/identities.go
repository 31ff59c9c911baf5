package endpointstest

import (
	"time"

	"berth/fsm"
	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/access"
)

// AddSigningKeys gives the server a root key and a signing key of each algorithm, with its algorithm as its
// ID. It returns the private parts.
func (s *Server) AddSigningKeys() (private [][]byte) {
	s.T.Helper()
	s.AddRootKey("root")
	for _, algorithm := range []string{access.KeyEdDSA, access.KeyRS256} {
		public, der, err := idtoken.Generate(algorithm)
		if err != nil {
			s.T.Fatal(err)
		}
		sealed, err := s.Keys.Seal(access.SigningKeyPlace(algorithm), der)
		if err != nil {
			s.T.Fatal(err)
		}
		MustPropose(s, fsm.SigningKeyAdd, &access.KeyAddRequest{
			Key: &access.SigningKey{
				KeyID: algorithm, Algorithm: algorithm, PublicKey: public, Private: sealed,
			},
			Now: s.Clock.UnixNano(),
		})
		private = append(private, der)
	}
	return private
}

// AddWorkload places the allocation a1 with the task t of the job job-a1 in the group g on the node n1.
func (s *Server) AddWorkload() {
	s.T.Helper()
	s.AddNode("n1", "z")
	s.AddNode("n2", "z")
	s.AddAlloc("a1", "n1", func(g *structs.TaskGroup) {
		g.Services = []*structs.Service{{
			Name:     "web",
			Provider: structs.ServiceProviderConsul,
			Identity: &structs.WorkloadIdentity{Name: "consul-service_web", Audience: []string{"consul.io"}},
		}}
		g.Tasks[0].Identities = []*structs.WorkloadIdentity{
			{Name: "vault", Audience: []string{"vault.io", "other"}, TTL: time.Minute, File: true},
			{Name: "long", Audience: []string{"vault.io"}, TTL: 7 * 24 * time.Hour, File: true},
		}
	})
}

// Wanted names an identity of the allocation a1.
func Wanted(kind, workload, name string) access.WantedIdentity {
	return access.WantedIdentity{AllocID: "a1", Kind: kind, Workload: workload, Name: name}
}

// SignRequest asks for identities as the node n1 does.
func SignRequest(items ...access.WantedIdentity) *access.SignRequest {
	return &access.SignRequest{Identities: items, NodeID: "n1", SecretID: SecretOf("n1")}
}

// TaskIdentity signs the default identity of the task of a1.
func (s *Server) TaskIdentity() string {
	s.T.Helper()
	resp := Must(s, access.IdentitySign,
		SignRequest(Wanted(access.IdentityOfTask, "t", structs.DefaultIdentity)))
	if resp.Signed[0].JWT == "" {
		s.T.Fatalf("no token: %s", resp.Signed[0].Rejection)
	}
	return string(resp.Signed[0].JWT)
}
