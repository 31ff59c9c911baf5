package exec_test

import (
	"fmt"
	"os"
	"testing"

	"berth/client/drivers/driver"
)

// A supervisor is started with a timer slack of its own. Its programs have the slack of any other program.
func TestStart_PassesNoTimerSlackOn(t *testing.T) {
	const script = `cat /proc/self/timerslack_ns`
	const usual = "50000\n"
	for name, edit := range map[string]func(*driver.TaskConfig){
		"a user":     func(cfg *driver.TaskConfig) { cfg.User = "nobody" },
		"privileged": func(cfg *driver.TaskConfig) { cfg.Privileged = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			cfg := r.task("t", script+"; exec sleep 1000")
			edit(cfg)
			h := r.start(cfg)
			r.awaitOutput(cfg, "\n")
			if got := r.readLog(cfg, "stdout"); got != usual {
				t.Errorf("the task has the timer slack %q", got)
			}
			_, got, err := r.command(cfg.ID, script)
			if err != nil || got != usual {
				t.Errorf("a command has the timer slack %q, %v", got, err)
			}
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", h.PID))
			if err != nil || string(text) != "1000000\n" {
				t.Errorf("the supervisor has the timer slack %q, %v", text, err)
			}
		})
	}
}
