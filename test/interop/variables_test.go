package interop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	accesses "berth/endpoints/access"
	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/keyring/keyringtest"
	"berth/server/leases"
	"berth/structs/access"
	"berth/test/oneserver"
)

// leader is the log of a server that leads.
type leader struct{ *oneserver.Log }

func (leader) VerifyLeader() error { return nil }

// serveVariables makes fake servers answer about variables as servers with a root key do.
func serveVariables(t *testing.T, c *apitest.Caller) {
	t.Helper()
	s := leader{oneserver.NewLog()}
	ring := &keyring.Ring{}
	keyringtest.Use(t, ring, "k")
	oneserver.Put(t, s, fsm.RootKeyAdd, keyringtest.Row("k"))
	locks := leases.NewVariableLocks(leases.LockConfig{
		Store:    s.Store,
		Proposer: s,
		Logger:   hclog.NewNullLogger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { locks.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		loop.Wait()
	})

	v := accesses.Variables{Store: s.Store, Raft: s, Keys: ring, Locks: locks}
	apitest.On(c, access.VariableApply,
		func(ctx context.Context, req *access.VariableApplyRequest) (*access.VariableApplyResponse, error) {
			resp := &access.VariableApplyResponse{}
			_, err := v.Apply(ctx, req, resp)
			return resp, err
		})
	apitest.On(c, access.VariableRenew,
		func(ctx context.Context, req *access.VariableRenewRequest) (*access.VariableRenewResponse, error) {
			resp := &access.VariableRenewResponse{}
			_, err := v.Renew(ctx, req, resp)
			return resp, err
		})
	apitest.On(c, access.VariableGet,
		func(_ context.Context, req *access.VariableGetRequest) (*access.VariableGetResponse, error) {
			resp := &access.VariableGetResponse{}
			return resp, v.Get(s.Store.Read(), req, resp)
		})
	apitest.On(c, access.VariableList,
		func(_ context.Context, req *access.VariableListRequest) (*access.VariableListResponse, error) {
			resp := &access.VariableListResponse{}
			return resp, v.List(s.Store.Read(), req, resp)
		})
}

func TestClient_WritesAndReadsVariables(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	serveVariables(t, caller)
	api := c.Variables()
	v := public.NewVariable("app/db")
	v.Items["user"] = "me"
	created, _, err := api.CheckedCreate(v, nil)
	if err != nil || created.Items["user"] != "me" || created.ModifyIndex == 0 {
		t.Fatalf("create: %+v, %v", created, err)
	}
	_, _, err = api.CheckedCreate(v, nil)
	conflict, ok := errors.AsType[public.ErrCASConflict](err)
	if !ok || conflict.Conflict.ModifyIndex != created.ModifyIndex || conflict.Conflict.Items["user"] != "me" {
		t.Errorf("a second creation: %v", err)
	}

	created.Items["user"] = "you"
	updated, _, err := api.CheckedUpdate(created, nil)
	if err != nil || updated.Items["user"] != "you" || updated.CreateIndex != created.CreateIndex {
		t.Errorf("update: %+v, %v", updated, err)
	}
	items, _, err := api.GetVariableItems("app/db", nil)
	if err != nil || items["user"] != "you" {
		t.Errorf("items: %v, %v", items, err)
	}
	list, _, err := api.PrefixList("app", nil)
	if err != nil || len(list) != 1 || list[0].Path != "app/db" {
		t.Errorf("list: %v, %v", list, err)
	}
	_, err = api.CheckedDelete("app/db", created.ModifyIndex, nil)
	_, ok = errors.AsType[public.ErrCASConflict](err)
	if !ok {
		t.Errorf("the deletion of a former index: %v", err)
	}
	_, err = api.CheckedDelete("app/db", updated.ModifyIndex, nil)
	checkNoError(t, "delete", err)
	gone, _, err := api.Peek("app/db", nil)
	if err != nil || gone != nil {
		t.Errorf("after the deletion: %v, %v", gone, err)
	}
}

func TestClient_LocksVariables(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	serveVariables(t, caller)
	lock := func() *public.Locks {
		v := public.NewVariable("app/leader")
		v.Lock = &public.VariableLock{TTL: "15s", LockDelay: "15s"}
		l, err := c.Locks(public.WriteOptions{}, *v, public.LocksOptionWithMaxRetries(0))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := lock(), lock()
	_, err := first.Acquire(t.Context())
	checkNoError(t, "acquire", err)
	_, err = second.Acquire(t.Context())
	if !errors.Is(err, public.ErrLockConflict) {
		t.Errorf("a second holder: %v", err)
	}
	awaitAnswer(t, "a renewal, once the server leads", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		err := first.Renew(t.Context())
		return err == nil, nil, err
	})
	if first.LockTTL() != 15*time.Second {
		t.Errorf("got the TTL %s", first.LockTTL())
	}
	_, _, err = c.Variables().Update(public.NewVariable("app/leader"), nil)
	if err == nil {
		t.Error("somebody else writes")
	}
	checkNoError(t, "release", first.Release(t.Context()))
	err = first.Renew(t.Context())
	if !errors.Is(err, public.ErrLockConflict) {
		t.Errorf("a renewal after the release: %v", err)
	}
	_, err = second.Acquire(t.Context())
	checkNoError(t, "acquire after the release", err)
}
