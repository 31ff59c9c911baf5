package conf

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// ByteSize is a number of bytes, written like "100GB".
type ByteSize int64

// UnmarshalText reads a size.
func (s *ByteSize) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%.40q is not a size such as 100GB", text)
	}
	*s = ByteSize(n)
	return nil
}
