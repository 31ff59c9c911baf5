package operator_test

import (
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli"
	"berth/cli/clitest"
	"berth/structs"
)

func TestGossip_NamesTheSocketAndNotTheKey(t *testing.T) {
	agent := clitest.NewAgent(t.TempDir())
	agent.GossipDenied = "/srv/berth.sock"
	addr := clitest.Serve(t, &apitest.Caller{}, agent)
	const key = "MTIzNDU2Nzg5MDEyMzQ1Ng=="
	for _, verb := range []string{"install", "use", "remove"} {
		code, out, errs := clitest.Run(t, cli.Tree(), "operator", "gossip", "keyring", verb, "-address", addr, key)
		const over = " -address unix:///srv/berth.sock KEY\n"
		if code != structs.KindDenied.ExitCode() || strings.Contains(out+errs, key) ||
			!strings.HasSuffix(errs, "\nRun there: sudo berth operator gossip keyring "+verb+over) {
			t.Errorf("%s: got exit code %d, %s%s", verb, code, out, errs)
		}
	}
}
