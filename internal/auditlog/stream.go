package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/syslog"
)

// stream is a sink without a disk: stdout.
type stream struct{ to io.Writer }

func (s stream) write(lines []byte) error {
	_, err := s.to.Write(lines)
	return err
}

func (stream) prepare() error { return nil }
func (stream) close()         {}

// maxSyslog bounds a message to syslog in bytes. Daemons cut longer ones.
const maxSyslog = 8000

// daemon is the syslog daemon of the machine. The connection is made again after a fault.
type daemon struct {
	dial func() (*syslog.Writer, error)
	to   *syslog.Writer // nil: not connected
}

func newDaemon() *daemon {
	return &daemon{dial: func() (*syslog.Writer, error) {
		return syslog.New(syslog.LOG_AUTHPRIV|syslog.LOG_INFO, "berth-audit")
	}}
}

func (d *daemon) prepare() error {
	if d.to != nil {
		return nil
	}

	to, err := d.dial()
	if err != nil {
		return fmt.Errorf("syslog: %w", err)
	}
	d.to = to
	return nil
}

func (d *daemon) write(lines []byte) error {
	err := d.prepare()
	if err != nil {
		return err
	}

	for line := range bytes.Lines(lines) {
		err := d.to.Info(message(line))
		if err != nil {
			d.close()
			return fmt.Errorf("syslog: %w", err)
		}
	}
	return nil
}

// message returns a line as a message, without its rows if they make it too long.
func message(line []byte) string {
	var e Event
	if len(line) > maxSyslog && json.Unmarshal(line, &e) == nil {
		e.Before = nil
		e.After = nil
		e.Truncated = true
		short, err := json.Marshal(&e)
		if err == nil {
			line = short
		}
	}
	return string(bytes.TrimSuffix(line, []byte("\n")))
}

func (d *daemon) close() {
	if d.to != nil {
		_ = d.to.Close()
		d.to = nil
	}
}
