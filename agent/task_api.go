package agent

import (
	"context"
	"net/http"
	"strings"

	"berth/api"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// ofTask marks the context of a request over the socket of a task whose token the servers check.
type ofTask struct{}

// forTasks returns the handler of the sockets of tasks. Unlike the port, it answers no request without a
// valid token, because a task is less trusted than whoever reaches the port. Where the port asks for
// certificates and the servers enforce no rights, it answers none: a task would have all rights.
func (a *Agent) forTasks(next http.Handler) http.Handler {
	without := api.Failed(structs.Deniedf("a task needs a token for the API: give it an identity with " +
		"env = true, and send the variable NOMAD_TOKEN in the header X-Nomad-Token"))
	unchecked := api.Failed(structs.Preconditionf("tasks cannot use the API of this agent: it asks others for " +
		"certificates and the servers enforce no rights of tokens; set acl.enabled on all agents"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := api.TokenOf(r.Header)
		if token == "" || token == access.Anonymous {
			without.ServeHTTP(w, r)
			return
		}

		answer, err := askAboutTask(r.Context(), a.caller, token)
		switch {
		case err != nil:
			api.Failed(err).ServeHTTP(w, r)
		case answer.Open && a.config().TLS.Required():
			unchecked.ServeHTTP(w, r)
		case answer.Open:
			next.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ofTask{}, true)))
		}
	})
}

// askAboutTask asks the servers about the token of a task. The error is of kind denied for one that is no
// token of the cluster, also where the servers enforce no rights.
func askAboutTask(ctx context.Context, servers rpc.Caller, token string) (*access.CheckResponse, error) {
	req := &access.CheckRequest{Needs: access.NeedsNothing}
	req.AuthToken = token
	req.AllowStale = true
	answer, err := rpc.Call(ctx, servers, access.Check, req)
	if err != nil {
		return nil, err
	}
	if answer.Caller == (access.Caller{}) {
		return nil, structs.Deniedf("the token of the request is no token of this cluster: send the variable " +
			"NOMAD_TOKEN of the task in the header X-Nomad-Token")
	}
	return answer, nil
}

// readsVariables reports whether a request of a task is about the values of variables: the servers decide on
// them by its token.
func readsVariables(r *http.Request) bool {
	return r.Context().Value(ofTask{}) != nil && strings.HasPrefix(r.URL.Path, "/v1/var/")
}
