package pki

import (
	"crypto/x509"
	"math/big"
	"strings"

	"berth/structs"
)

const maxSerial = 64 // the most bytes of a serial number in hexadecimal

// Serial returns the serial number of a certificate in hexadecimal, without leading zeros.
func Serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// ParseSerial returns a serial number in the form of Serial. It takes upper and lower case, leading zeros,
// and colons between the digits. The error is invalid.
func ParseSerial(text string) (string, error) {
	digits := strings.ReplaceAll(text, ":", "")
	n, ok := new(big.Int).SetString(digits, 16)
	if len(digits) > maxSerial || !ok || n.Sign() < 0 || strings.ContainsAny(digits, "+-_") {
		return "", structs.Invalidf("Serial is %q; expected a serial number in hexadecimal, as "+
			"`berth tls cert info` shows it", structs.Cut(text, structs.MaxQuoted))
	}
	return n.Text(16), nil
}
