package taskconfig

import (
	"cmp"
	"strconv"

	"github.com/docker/go-units"
)

// Drivers of Logging.
const (
	LogJSON  = "json-file"
	LogLocal = "local"
	LogNone  = "none"
)

// The daemon keeps this of a container with a driver that writes files, unless the job says otherwise.
const (
	KeptOutput = "16m" // bytes of one file
	KeptFiles  = "2"
)

// All jobs share the daemon's disk and its memory, so a job gets a bounded part of them.
const (
	maxLogBytes  = 1 << 30 // on disk, for one container
	maxLogFiles  = 100
	maxLogBuffer = 16 << 20 // in memory, for one container
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
		l.checkFiles(b, "", KeptOutput, KeptFiles)
		// A driver that sends the output away keeps a copy of it.
		l.checkFiles(b, "cache-", "20m", "5")
		// Both options bound a buffer in the memory of the daemon.
		l.checkSize(b, "max-buffer-size", maxLogBuffer)
		l.checkSize(b, "fluentd-buffer-limit", maxLogBuffer)
	})

	return l
}

// checkFiles bounds what the files take together, whose size and number are options with that prefix. The
// defaults are for an option that the job does not set.
func (l *Logging) checkFiles(b *block, prefix, defaultSize, defaultFiles string) {
	size := prefix + "max-size"
	files := prefix + "max-file"
	sizeText := l.option(size, defaultSize)
	filesText := l.option(files, defaultFiles)
	// A reference may stand for either, and only both together can be checked.
	if b.isOpen(sizeText) || b.isOpen(filesText) {
		return
	}

	n, err := strconv.Atoi(filesText)
	if err != nil || n < 1 || n > maxLogFiles {
		b.reject("config."+files, filesText, "expected a number from 1 to %d", maxLogFiles)
		return
	}

	bytes, err := units.RAMInBytes(sizeText)
	if err != nil || bytes < 1 {
		b.reject("config."+size, sizeText, "expected a size such as \"16m\"")
		return
	}

	// The product of the two could be too great for an integer.
	if bytes > maxLogBytes/int64(n) {
		b.reject("config."+size, sizeText, "the daemon would keep %d files of that size (%s); "+
			"expected at most %s in all", n, files, units.BytesSize(maxLogBytes))
	}
}

// option returns an option, or its default if the job does not set it.
func (l *Logging) option(name, otherwise string) string {
	if text, set := l.Options[name]; set {
		return text
	}
	return otherwise
}

// checkSize bounds an option that is a size.
func (l *Logging) checkSize(b *block, name string, most int64) {
	text, set := l.Options[name]
	if !set || b.isOpen(text) {
		return
	}
	bytes, err := units.RAMInBytes(text)
	if err != nil || bytes < 1 || bytes > most {
		b.reject("config."+name, text, "expected a size up to %s", units.BytesSize(float64(most)))
	}
}
