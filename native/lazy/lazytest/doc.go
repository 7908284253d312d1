// Package lazytest tests the lazy runtime (native/lazy): programs of native/lazy/tests and native/pass/tests run with
// it on the fake CUDA (native/fake), or on a GPU, and the test is their scheduler.
package lazytest
