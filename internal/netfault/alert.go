package netfault

import (
	"errors"
	"net"
	"reflect"
)

// TLSAlert returns the number of the alert by which the other side ended a connection of TLS (RFC 8446, 6.2).
// The library has no exported type for it. It returns false for other errors.
func TLSAlert(err error) (alert uint8, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}

	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}

	return uint8(v.Uint()), true
}
