package agent

import (
	"net/http"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// forTasks returns the handler of the sockets of tasks. Unlike the port, it answers no request without a
// token, because a task is less trusted than whoever reaches the port. Where the port asks for certificates
// and no token is checked, it answers none: a task would have all rights.
func (a *Agent) forTasks(next http.Handler) http.Handler {
	without := api.Failed(structs.Deniedf("a task needs a token for the API: give it an identity with " +
		"env = true, and send the variable NOMAD_TOKEN in the header X-Nomad-Token"))
	unchecked := api.Failed(structs.Preconditionf("tasks cannot use the API of this agent: it asks others for " +
		"certificates and checks no tokens; set acl.enabled"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg := a.config()
		token := api.TokenOf(r.Header)
		switch {
		case cfg.TLS.Required() && !cfg.ACL.Enabled:
			unchecked.ServeHTTP(w, r)
		case token == "" || token == access.Anonymous:
			without.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
