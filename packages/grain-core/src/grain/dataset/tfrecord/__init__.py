"""TFRecord files, read without TensorFlow."""
