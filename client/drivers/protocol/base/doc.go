// Package base is the service that every external plugin has: its name, its type, its versions and its
// configuration. The code is made of base.proto.
package base
