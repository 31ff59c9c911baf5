package e2e

import (
	"time"

	"berth/structs"
)

// runThroughElections is run for an agent with three servers. A busy machine may stop their leader for so
// long that they elect another one. A command that fails for that reason is repeated, as its exit code
// demands: with one nothing was done, with the other the outcome is unknown. A repeated command may find
// nothing to end.
func (a *agent) runThroughElections(args ...string) (string, error) {
	out, err := a.run(args...)
	unknown := false
	for limit := time.Now().Add(2 * time.Minute); a.elects && time.Now().Before(limit); {
		switch exitCode(err) {
		case structs.KindTimeout.ExitCode():
			unknown = true
		case structs.KindUnavailable.ExitCode():
		case structs.KindNotFound.ExitCode():
			if unknown && endsSomething(args) {
				return out, nil
			}
			return out, err
		default:
			return out, err
		}
		a.t.Logf("it is repeated: %v", err)
		time.Sleep(50 * time.Millisecond)
		out, err = a.run(args...)
	}
	return out, err
}

// endsSomething reports whether a command that has succeeded finds nothing the next time.
func endsSomething(args []string) bool {
	return len(args) > 1 && (args[1] == "stop" || args[1] == "delete")
}
