package external

import (
	"fmt"
	"hash/fnv"
	"os/user"
	"regexp"
	"strconv"
	"sync"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/sandbox"
	"berth/client/store"
	"berth/structs"
)

// UserRange is the setting `client { users { } }`: the user IDs that the agent allots to tasks. -1 for one of
// them turns that off.
type UserRange struct {
	Min int `hcl:"dynamic_user_min"`
	Max int `hcl:"dynamic_user_max"`
}

// DefaultUserRange is the dialect's range.
func DefaultUserRange() UserRange { return UserRange{Min: 80_000, Max: 89_999} }

// maxUID is the highest user ID that drivers accept.
const maxUID = 1<<31 - 1

// Validate checks the bounds.
func (r UserRange) Validate() error {
	if r.isOff() || 1 <= r.Min && r.Min <= r.Max && r.Max <= maxUID {
		return nil
	}
	return structs.Invalidf("client.users: dynamic_user_min, %d, and dynamic_user_max, %d, are no range "+
		"within 1 to %d, and none of them is -1", r.Min, r.Max, maxUID)
}

func (r UserRange) isOff() bool { return r.Min == -1 || r.Max == -1 }

// heldUser is the user ID of a task in the node's store. It outlives the agent, as the task does.
type heldUser struct{ UID int }

// userTable has the user IDs by task, of all external drivers.
var userTable = store.NewTable[heldUser]("task_users")

// allotting serializes the changes of userTable.
var allotting sync.Mutex

// taskUser is the user of a task, with an allotted ID or else one of the machine.
type taskUser struct {
	name string
	uid  int // 0: none is allotted
}

// find returns nil for the user of the agent.
func (u taskUser) find() (*sandbox.User, error) {
	if u.uid == 0 {
		return executor.LookupUser(u.name)
	}

	// An allotted user has a group of the same ID, and no other.
	return &sandbox.User{UID: uint32(u.uid), GID: uint32(u.uid)}, nil
}

// allottedName is the form in which drivers get an allotted user.
const allottedName = "nomad-%d"

var allottedForm = regexp.MustCompile(`^nomad-\d+$`)

// userOf returns the user of a task. A driver with dynamic users gets an ID of the agent for a task without a
// user. In a job that form of a name could be any user, also root.
func (d *Driver) userOf(cfg *driver.TaskConfig, can *protocol.DriverCapabilities) (taskUser, error) {
	if !can.GetDynamicWorkloadUsers() {
		return taskUser{name: cfg.User}, nil
	}
	if allottedForm.MatchString(cfg.User) {
		return taskUser{}, structs.Invalidf(
			"user %q: only the agent allots such a user; name one of the machine, or none", cfg.User)
	}
	if cfg.User != "" {
		return taskUser{name: cfg.User}, nil
	}
	uid, err := allotUser(d.cfg.Records, d.cfg.Users, cfg.ID)
	if err != nil {
		return taskUser{}, fmt.Errorf("allotting a user to task %q, which names none: %w", cfg.ID, err)
	}
	return taskUser{name: fmt.Sprintf(allottedName, uid), uid: uid}, nil
}

// allotUser returns the user ID that a task holds, or a free one, which the task holds until releaseUser. The
// search begins at a place that depends on the task, so that a restarted task has its former ID: its files
// are of that.
func allotUser(db *store.DB, ids UserRange, taskID string) (int, error) {
	allotting.Lock()
	defer allotting.Unlock()
	all, err := userTable.All(db, "")
	if err != nil {
		return 0, err
	}

	held := map[int]bool{}
	for _, record := range all {
		if record.Key == taskID {
			return record.Value.UID, nil
		}

		held[record.Value.UID] = true
	}

	if ids.isOff() {
		return 0, structs.Preconditionf("the node allots none (client.users): set `user` in the task")
	}

	hash := fnv.New32a()
	_, _ = hash.Write([]byte(taskID))
	size := ids.Max - ids.Min + 1
	first := int(hash.Sum32() % uint32(size))
	for i := range size {
		uid := ids.Min + (first+i)%size
		if !held[uid] && !isKnown(uid) {
			// The record precedes the first use of the ID. After a crash a new start finds it here, and
			// Destroy deletes it.
			return uid, userTable.Put(db, taskID, &heldUser{UID: uid})
		}
	}

	return 0, structs.Preconditionf("all IDs from %d to %d are in use: set `user` in the task, or raise "+
		"dynamic_user_max in client.users", ids.Min, ids.Max)
}

// isKnown reports whether the machine has a user or a group with that ID.
func isKnown(id int) bool {
	text := strconv.Itoa(id)
	// A task with the ID of a user of the machine could use the files of that user.
	_, userErr := user.LookupId(text)
	_, groupErr := user.LookupGroupId(text)
	return userErr == nil || groupErr == nil
}

// releaseUser is idempotent.
func releaseUser(db *store.DB, taskID string) error {
	allotting.Lock()
	defer allotting.Unlock()
	// Most tasks hold none, and a deletion would write to the disk.
	held, err := userTable.Get(db, taskID)
	if err != nil || held == nil {
		return err
	}
	return userTable.Delete(db, taskID)
}
