package external

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

// withUsers is a node that allots two users.
func withUsers(t *testing.T) *fixture {
	f := newFixture(t)
	f.plugin.Set("users", "dynamic")
	f.users = UserRange{Min: 80_000, Max: 80_001}
	return f
}

// startedAs starts a task and returns the user that the plugin got, who owns the task's own directories.
func (a *agent) startedAs(cfg *driver.TaskConfig) string {
	a.f.t.Helper()
	a.start(cfg)
	name := a.f.lastStarted().GetUser()
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets} {
		info, err := os.Stat(dir)
		if err != nil {
			a.f.t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if name != "nomad-80000" && name != "nomad-80001" ||
			name != fmt.Sprintf(allottedName, owner.Uid) || owner.Gid != owner.Uid {
			a.f.t.Errorf("%s belongs to %d:%d, the user is %q", dir, owner.Uid, owner.Gid, name)
		}
	}
	return name
}

// A task holds its user until it is destroyed, also through a restart of the agent.
func TestUsers_AreHeldUntilTheTaskIsDestroyed(t *testing.T) {
	t.Parallel()
	f := withUsers(t)
	first := f.agent()
	one := f.task("a1", loops)
	h := first.start(one)
	user := f.lastStarted().GetUser()
	first.stop()
	second := f.agent()
	if err := second.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	two := f.task("a2", loops)
	if again := second.startedAs(two); again == user {
		t.Errorf("two tasks run as %q", user)
	}
	three := f.task("a3", loops)
	_, err := second.Start(t.Context(), three)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "set `user`") {
		t.Errorf("a third of two users: %v", err)
	}
	second.destroy(one.ID)
	if again := second.startedAs(three); again != user {
		t.Errorf("the third task runs as %q, want the free %q", again, user)
	}
	second.destroy(two.ID)
	second.destroy(three.ID)
	if left, err := userTable.All(f.records, ""); err != nil || len(left) != 0 {
		t.Errorf("records are left: %v, %v", left, err)
	}
}

// The files of a restarted task are of its user.
func TestUsers_OfATaskThatIsStartedAgain(t *testing.T) {
	t.Parallel()
	f := withUsers(t)
	f.users = DefaultUserRange()
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	a.start(cfg)
	user := f.lastStarted().GetUser()
	a.destroy(cfg.ID)
	a.start(cfg)
	if again := f.lastStarted().GetUser(); again != user {
		t.Errorf("the task ran as %q and runs as %q", user, again)
	}
	a.destroy(cfg.ID)
}

// The driver makes a root, so the agent does not look the user up: only the driver knows it.
func TestUsers_OfTasksThatNameOne(t *testing.T) {
	t.Parallel()
	f := withUsers(t)
	f.plugin.Set("isolation", "chroot")
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	for _, name := range []string{"nomad-0", "nomad-80000"} {
		cfg.User = name
		_, err := a.Start(t.Context(), cfg)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg.User = "daemon"
	a.start(cfg)
	if name := f.lastStarted().GetUser(); name != "daemon" {
		t.Errorf("the task runs as %q", name)
	}
	a.destroy(cfg.ID)
}

func TestUsers_OfADriverThatTakesNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	a.start(cfg)
	if name := f.lastStarted().GetUser(); name != "" {
		t.Errorf("the task runs as %q", name)
	}
	a.destroy(cfg.ID)
}

func TestUsers_OfANodeThatAllotsNone(t *testing.T) {
	t.Parallel()
	f := withUsers(t)
	f.users = UserRange{Min: -1, Max: 80_001}
	a := f.agent()
	cfg := f.task("a1", "exit 0")
	_, err := a.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "set `user`") {
		t.Errorf("got %v", err)
	}
	a.destroy(cfg.ID)
}

func TestUserRange_Validate(t *testing.T) {
	for ids, ok := range map[UserRange]bool{
		DefaultUserRange():     true,
		{Min: 5000, Max: 5000}: true,
		{Min: -1, Max: 0}:      true,
		{Min: 10, Max: -1}:     true,
		{Min: 0, Max: 10}:      false, // root
		{Min: 11, Max: 10}:     false,
		{Min: 1, Max: 1 << 31}: false,
	} {
		if err := ids.Validate(); (err == nil) != ok {
			t.Errorf("%+v: %v", ids, err)
		}
	}
}
