package access

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/api"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

var variableList = api.NewEndpoint(&table, api.Get, "/v1/vars",
	api.ServeList(access.VariableList, nil,
		func(a *access.VariableListResponse) []*access.VariableMetadata { return a.Variables }))

// Variables lists the variables whose paths begin with the prefix of the query, without their items.
func Variables(ctx context.Context, c *api.Client, q *api.Query) (
	[]*access.VariableMetadata, *api.Meta, error,
) {
	return variableList.Fetch(ctx, c, "", q)
}

var variableGet = api.NewEndpoint(&table, api.Get, "/v1/var/{path...}",
	api.ServeMethod(access.VariableGet,
		func(c *api.Call, req *access.VariableGetRequest) error {
			req.Path = c.Request.PathValue("path")
			return api.AllowSecrets(c)
		},
		func(a *access.VariableGetResponse) *access.OpenVariable { return a.Variable }))

// Variable reads a variable with its items.
func Variable(ctx context.Context, c *api.Client, path string, q *api.Query) (
	*access.OpenVariable, *api.Meta, error,
) {
	return variableGet.Fetch(ctx, c, path, q)
}

// renewParam is the parameter of a renewal. The other operations have the names of structs.
const renewParam = "lock-renew"

var (
	variablePut = api.NewEndpoint[*access.OpenVariable](&table, api.Put, "/v1/var/{path...}", serveVariablePut,
		api.AnswersAlso(http.StatusConflict))

	variableDelete = api.NewEndpoint[*access.OpenVariable](&table, api.Remove, "/v1/var/{path...}",
		serveVariableDelete, api.AnswersAlso(http.StatusConflict))
)

// variableBody is a variable in the body of a request. The servers set its indexes and times themselves.
// Those fields are accepted and dropped, so that a client can send back what it has read.
type variableBody struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64
	ModifyTime  int64
	Items       access.VariableItems
	Lock        *lockBody
}

// lockBody is a lock with durations such as 15s.
type lockBody struct{ ID, TTL, LockDelay string }

// lock returns the lock of a body, nil for none.
func (b *variableBody) lock() (lock *access.VariableLock, err error) {
	if b.Lock == nil {
		return nil, nil
	}
	lock = &access.VariableLock{ID: b.Lock.ID}
	// An empty text leaves the default of the servers.
	for text, field := range map[*string]*time.Duration{
		&b.Lock.TTL:       &lock.TTL,
		&b.Lock.LockDelay: &lock.LockDelay,
	} {
		if *text == "" {
			continue
		}
		*field, err = time.ParseDuration(*text)
		if err != nil {
			return nil, structs.Invalidf("Lock: TTL and LockDelay are durations such as 15s")
		}
	}
	return lock, nil
}

// serveVariablePut writes a variable, or acquires, renews or releases its lock.
func serveVariablePut(c *api.Call) (any, error) {
	var body variableBody
	err := api.AllowSecrets(c)
	if err == nil {
		err = c.DecodeBody(&body)
	}
	if err != nil {
		return nil, err
	}

	lock, err := body.lock()
	if err != nil {
		return nil, err
	}

	// The path decides. Another one in the body is a mistake, and not a rename.
	path := c.Request.PathValue("path")
	if body.Path != "" && body.Path != path {
		return nil, structs.Invalidf("the path names the variable %q, the body %q",
			structs.Cut(path, structs.MaxQuoted), structs.Cut(body.Path, structs.MaxQuoted))
	}

	req := &access.VariableApplyRequest{Op: access.VariableSet, Items: body.Items, Lock: lock}
	req.Namespace = body.Namespace
	for _, op := range []string{access.VariableAcquire, access.VariableRelease} {
		if c.Params().Has(op) {
			req.Op = op
		}
	}
	if c.Params().Has(renewParam) {
		return renewVariable(c, &body)
	}
	return applyVariable(c, req)
}

// A delete has no body, so the lock comes as a parameter.
func serveVariableDelete(c *api.Call) (any, error) {
	err := api.AllowSecrets(c)
	if err != nil {
		return nil, err
	}
	return applyVariable(c, &access.VariableApplyRequest{
		Op:   access.VariableDelete,
		Lock: &access.VariableLock{ID: c.Param("lock-id")},
	})
}

// applyVariable sends a write to the servers, and answers a conflict with the present variable. The namespace
// of the query wins over the body's, as in the dialect.
func applyVariable(c *api.Call, req *access.VariableApplyRequest) (any, error) {
	given := req.Namespace
	err := c.BindWrite(&req.WriteOptions)
	if err != nil {
		return nil, err
	}
	req.Namespace = cmp.Or(req.Namespace, given)
	req.Path = c.Request.PathValue("path")
	if c.Params().Has("cas") {
		index, err := api.NumberParam[uint64](c, "cas", 64)
		if err != nil {
			return nil, err
		}
		// 0 is a value of its own: there must be no variable.
		req.CheckIndex = &index
	}

	resp, err := rpc.Call(c.Ctx(), c.Caller, access.VariableApply, req)
	if err != nil {
		return nil, err
	}

	c.SetIndex(resp.Index)
	switch {
	case resp.Conflict != nil:
		return renderConflict(c, resp.Conflict)
	case resp.Variable == nil:
		return struct{}{}, nil
	}
	return resp.Variable, nil
}

// A renewal makes no log entry, and so has no check of an index.
func renewVariable(c *api.Call, body *variableBody) (any, error) {
	req := &access.VariableRenewRequest{}
	err := c.BindWrite(&req.WriteOptions)
	if err != nil {
		return nil, err
	}
	req.Namespace = cmp.Or(req.Namespace, body.Namespace)
	req.Path = c.Request.PathValue("path")
	if body.Lock != nil {
		req.LockID = body.Lock.ID
	}
	resp, err := rpc.Call(c.Ctx(), c.Caller, access.VariableRenew, req)
	if err != nil {
		return nil, err
	}
	c.SetIndex(resp.Index)
	if resp.Conflict != nil {
		return renderConflict(c, resp.Conflict)
	}
	return resp.Variable, nil
}

// The answer has the kind of a conflict, and the variable instead of a text.
func renderConflict(c *api.Call, present *access.OpenVariable) (any, error) {
	c.Writer.Header().Set(api.HeaderErrorKind, string(structs.KindConflict))
	c.Render(http.StatusConflict, present)
	return nil, nil
}

// VariableWrite is a write of a variable.
type VariableWrite struct {
	// Op is one of the operations of access.VariableApply, or lock-renew. "" is access.VariableSet.
	Op         string
	Namespace  string // "" for the client's
	Path       string
	Items      access.VariableItems
	Lock       *access.VariableLock
	CheckIndex *uint64 // the ModifyIndex of the present variable, 0 for none. nil: any
}

// VariableConflict is the error of a write that another one has preceded, or that has not the lock. Its kind
// is conflict.
type VariableConflict struct {
	error
	Present *access.OpenVariable // without the ID of its lock; without indexes if it does not exist
}

// Unwrap returns the error with the kind.
func (e *VariableConflict) Unwrap() error { return e.error }

// WriteVariable writes a variable and returns it as it is now, without items after a renewal and without all
// after a deletion. The error is a VariableConflict if the variable is not as the write expects it.
func WriteVariable(ctx context.Context, c *api.Client, w VariableWrite) (*access.OpenVariable, error) {
	query := url.Values{}
	api.SetGiven(query, "namespace", w.Namespace)
	if w.CheckIndex != nil {
		query.Set("cas", strconv.FormatUint(*w.CheckIndex, 10))
	}

	r := api.Request{ID: w.Path, Query: query}
	at := variablePut
	switch w.Op {
	// Only this operation has a method of its own.
	case access.VariableDelete:
		at = variableDelete
		if w.Lock != nil {
			query.Set("lock-id", w.Lock.ID)
		}
	default:
		if w.Op != "" && w.Op != access.VariableSet {
			query.Set(w.Op, "")
		}
		r.Body = access.OpenVariable{
			VariableMetadata: access.VariableMetadata{Path: w.Path, Lock: w.Lock},
			Items:            w.Items,
		}
	}

	// The route has 409 among its answers, so this is no error.
	resp, err := at.Open(ctx, c, r)
	if err != nil {
		return nil, err
	}
	defer api.CloseBody(resp)
	var answer access.OpenVariable
	err = json.NewDecoder(resp.Body).Decode(&answer)
	switch {
	case err != nil && resp.StatusCode == http.StatusConflict:
		// The body comes from an agent of another version or from a proxy.
		return nil, structs.Conflictf("the agent at %s answers that the variable is not as expected", c.Address())
	case err != nil:
		return nil, structs.Internalf("the answer of the agent at %s is invalid", c.Address())
	case resp.StatusCode == http.StatusConflict:
		return nil, conflictOf(w.Path, &answer)
	case !w.isAnsweredBy(&answer, resp.Header):
		return nil, structs.Internalf("the answer of the agent at %s is not that to the write of a variable",
			c.Address())
	}
	return &answer, nil
}

// isAnsweredBy reports whether an answer has what the write needs. Another program than an agent may answer.
func (w *VariableWrite) isAnsweredBy(answer *access.OpenVariable, header http.Header) bool {
	switch w.Op {
	case access.VariableDelete: // nothing is left of the variable but the index
		return header.Get(api.HeaderIndex) != ""
	case access.VariableAcquire:
		return answer.Path != "" && answer.Lock != nil
	}
	return answer.Path != ""
}

func conflictOf(path string, present *access.OpenVariable) error {
	text := "the variable %q is not as the write expects it: its index is %d"
	if present.Lock != nil {
		text = "the variable %q is locked, and the write has not the ID of its lock; its index is %d"
	}
	return &VariableConflict{structs.Conflictf(text, path, present.ModifyIndex), present}
}
