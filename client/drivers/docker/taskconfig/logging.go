package taskconfig

import "cmp"

// Drivers of Logging.
const (
	LogJSON  = "json-file"
	LogLocal = "local"
	LogNone  = "none"
)

// Logging says how the daemon keeps the output of the container.
type Logging struct {
	Driver  string // of the daemon's logs
	Options map[string]string
}

// Readable reports whether the daemon can be asked for the output. It keeps a copy also with a driver that
// only passes the output on, unless an option turns that off.
func (l *Logging) Readable() bool {
	return l.Driver != LogNone && l.Options["cache-disabled"] != "true"
}

// readLogging reads the block. The field type was named driver once.
func readLogging(b *block) *Logging {
	var l *Logging
	b.one("logging", func(b *block) {
		l = &Logging{Options: b.pairs("config")}
		name := b.text("type")
		former := b.text("driver")
		if name != "" && former != "" && name != former {
			b.reject("driver", former, "the block has the type %q, too; remove one of the two", name)
		}
		l.Driver = cmp.Or(name, former, LogJSON)
	})
	return l
}
