package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// variable has the path of the socket of the manager, or its abstract name after an @.
const variable = "NOTIFY_SOCKET"

// patience bounds a message: a manager that hangs must not hold the agent.
const patience = 5 * time.Second

// The states of sd_notify(3).
const (
	Ready    = "READY=1"    // the agent answers
	Stopping = "STOPPING=1" // the agent has begun to stop
)

// serviceManager is the service manager that has started this process, systemd: it is told when the agent is
// ready and when it stops (see sd_notify(3)). The zero serviceManager is none, and does nothing.
type serviceManager struct{ socket string }

// takeManager returns the manager that the environment names, and removes it there: a child of the agent must
// not speak for it.
func takeManager() serviceManager {
	m := serviceManager{socket: os.Getenv(variable)}
	_ = os.Unsetenv(variable) // a valid name is no error
	return m
}

// Send sends a state to the manager. Without a manager it returns nil.
func (m serviceManager) Send(state string) error {
	if m.socket == "" {
		return nil
	}

	err := m.send(state)
	if err != nil {
		return fmt.Errorf("%s to the service manager: %w", state, err)
	}
	return nil
}

func (m serviceManager) send(state string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixgram", m.socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a datagram is sent whole or not at all

	deadline, _ := ctx.Deadline()
	err = conn.SetWriteDeadline(deadline)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
