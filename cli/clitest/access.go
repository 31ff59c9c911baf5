package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

// dutyToken is the token of the fake cluster that is no management token.
func dutyToken() *access.Token {
	return &access.Token{
		AccessorID: "d4f2c1e0-0000-0000-0000-000000000001",
		Name:       "duty",
		Type:       access.TypeClient,
		Policies:   []string{"read-all"},
		Roles:      []*access.Link{{ID: "r1", Name: "on-call"}},
		CreateTime: Today.UnixNano(),
		ExpireTime: Today.UnixNano(),
	}
}

func onCall() *access.Role {
	return &access.Role{
		ID:          "r1",
		Name:        "on-call",
		Description: "On duty",
		Policies:    []*access.PolicyLink{{Name: "read-all"}, {Name: "detach"}},
	}
}

// answerAccess answers the requests about access control. Writes answer with what they got.
func (w *Cluster) answerAccess() {
	management := &access.Token{
		AccessorID: "a0000000-0000-0000-0000-000000000001",
		Name:       "Bootstrap Token",
		Type:       access.TypeManagement,
		CreateTime: Today.UnixNano(),
	}
	apitest.On(w.Caller, access.Bootstrap,
		func(_ context.Context, r *access.BootstrapRequest) (*access.TokenPutResponse, error) {
			return &access.TokenPutResponse{Token: management, SecretID: "secret of " + r.Secret}, nil
		})
	mode := access.ModeEnforce
	apitest.On(w.Caller, access.ModeGet,
		func(context.Context, *access.ModeGetRequest) (*access.ModeGetResponse, error) {
			return &access.ModeGetResponse{Mode: mode, Server: "s1", Here: access.ModeEnforce}, nil
		})
	apitest.On(w.Caller, access.ModeSet,
		func(_ context.Context, r *access.ModeSetRequest) (*structs.Empty, error) {
			mode = r.Mode
			return &structs.Empty{}, nil
		})
	apitest.Answer(w.Caller, access.TokenList, access.TokenListResponse{
		Tokens: []*access.Token{management, dutyToken()},
	})
	apitest.Answer(w.Caller, access.TokenGet, access.TokenGetResponse{Token: dutyToken()})
	apitest.On(w.Caller, access.TokenPut,
		func(_ context.Context, r *access.TokenPutRequest) (*access.TokenPutResponse, error) {
			answer := &access.TokenPutResponse{Token: r.Token}
			if r.Token.AccessorID == "" {
				answer.SecretID = "of " + r.TTL.String()
				r.Token.AccessorID = "new"
			}
			r.Token.CreateTime = Today.UnixNano()
			return answer, nil
		})
	apitest.Answer(w.Caller, access.TokenDelete, structs.Empty{})

	apitest.Answer(w.Caller, access.PolicyList, access.PolicyListResponse{
		Policies: []*access.PolicyStub{{Name: "read-all", Description: "Reads everything"}},
	})
	apitest.Answer(w.Caller, access.PolicyGet, access.PolicyGetResponse{Policy: &access.Policy{
		Name:        "read-all",
		Description: "Reads everything",
		Rules:       `node { policy = "read" }`,
		JobACL:      &access.JobACL{Namespace: "default", JobID: "web"},
	}})
	apitest.Answer(w.Caller, access.PolicyPut, structs.Empty{})
	apitest.Answer(w.Caller, access.PolicyDelete, structs.Empty{})

	apitest.Answer(w.Caller, access.RoleList, access.RoleListResponse{Roles: []*access.Role{onCall()}})
	apitest.On(w.Caller, access.RoleGet,
		func(context.Context, *access.RoleGetRequest) (*access.RoleGetResponse, error) {
			return &access.RoleGetResponse{Role: onCall()}, nil
		})
	apitest.On(w.Caller, access.RolePut,
		func(_ context.Context, r *access.RolePutRequest) (*access.RolePutResponse, error) {
			if r.Role.ID == "" {
				r.Role.ID = "new"
			}
			return &access.RolePutResponse{Role: r.Role}, nil
		})
	apitest.Answer(w.Caller, access.RoleDelete, structs.Empty{})
	w.answerLogins()
}
