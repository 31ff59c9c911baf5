package cluster

import (
	"berth/structs"
	"time"
)

// The life of the certificate of an operator that the servers sign.
const (
	OperatorLife    = 30 * 24 * time.Hour // unless the request has another one
	MaxOperatorLife = 365 * 24 * time.Hour
)

// OperatorRoot is the Operator of a request that came over an operator socket.
const OperatorRoot = "root"

// OperatorCertificate signs the certificate of an operator. It makes no entry of the log.
var OperatorCertificate = structs.Write[
	OperatorCertificateRequest, OperatorCertificateResponse,
]("Certificate.Operator")

// OperatorCertificateRequest has the request for the certificate, which has the identity.
type OperatorCertificateRequest struct {
	CSR []byte        // in DER
	TTL time.Duration // 0 is OperatorLife; at most MaxOperatorLife
	// Operator is the identity in the certificate of the caller, or OperatorRoot. The agent that takes the
	// request over HTTP sets it.
	Operator string
	structs.WriteOptions
}

// OperatorCertificateResponse has the certificate and the authorities to trust, in PEM.
type OperatorCertificateResponse struct {
	Certificate string
	Authorities string
	Serial      string // in hexadecimal
	NotAfter    int64  // UnixNano
	structs.WriteMeta
}
