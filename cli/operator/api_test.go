package operator_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/cli"
	"berth/cli/clitest"
)

func TestOperatorAPI_SendsTheRequestAsGiven(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Method, " ", r.URL.EscapedPath(), " ", r.URL.Query().Encode(), " ",
			r.Header.Get("X-Berth-Token"), " ", r.Header.Get("Accept"))
	}))
	defer agent.Close()

	for want, args := range map[string][]string{
		"GET /v1/jobs namespace=blue&prefix=a  *\n": {"-namespace", "blue", "-H", "Accept: *", "/v1/jobs?prefix=a"},
		"GET /v1/job/a%2Fb filter=x&namespace=default  \n": {
			"-namespace", "default", "-filter", "x", "/v1/job/a%2Fb"},
		"DELETE /v1/job/a purge=  \n": {"-X", "delete", "/v1/job/a?purge"},
	} {
		args = append([]string{"operator", "api", "-address", agent.URL}, args...)
		code, out, errs := clitest.Run(t, cli.Tree(), args...)
		if code != 0 || out != want {
			t.Errorf("%v: exit code %d, sent %q, want %q; %s", args, code, out, want, errs)
		}
	}
}
